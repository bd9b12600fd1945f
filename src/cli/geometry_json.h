// An attention geometry as JSON, the same in every command.
// Called by: footprint, bench. Thread-safety: stateless.
#ifndef MLA_CLI_GEOMETRY_JSON_H_
#define MLA_CLI_GEOMETRY_JSON_H_

#include "cli/json.h"
#include "mla/tools.h"

namespace mla {

inline Json GeometryJson(const Geometry& g) {
  return Json{{"name", g.name}, {"layers", g.layers}, {"heads", g.heads}, {"rank", g.kv_rank},
              {"nope", g.nope}, {"rope", g.rope},     {"v_dim", g.v_dim}};
}

}  // namespace mla

#endif  // MLA_CLI_GEOMETRY_JSON_H_
