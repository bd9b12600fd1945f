// Version of the library. Thread-safety: stateless.
#ifndef MLA_VERSION_H_
#define MLA_VERSION_H_

#define MLA_VERSION "0.1.0"

namespace mla {

/// The version the library was built as, e.g. "0.1.0".
const char* Version() noexcept;

}  // namespace mla

#endif  // MLA_VERSION_H_
