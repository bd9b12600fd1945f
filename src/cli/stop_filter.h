// Holds generated text back as long as it may be the beginning of a stop string.
// Called by: generate. Thread-safety: one thread at a time.
#ifndef MLA_CLI_STOP_FILTER_H_
#define MLA_CLI_STOP_FILTER_H_

#include <string>
#include <string_view>
#include <vector>

namespace mla {

/// The stop string that is complete first wins (of several that end together, the longest), so that
/// the result does not depend on how the text is cut into pieces.
class StopFilter {
 public:
  /// `stops`: non-empty strings; none at all passes everything through.
  explicit StopFilter(std::vector<std::string> stops);

  /// Appends a piece; returns the text that is certain now, without any stop string.
  std::string Push(std::string_view piece);
  /// At the end of the text: what was held back, unless a stop string was found.
  std::string Flush();
  bool stopped() const { return stopped_; }

 private:
  size_t HeldBack() const;

  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace mla

#endif  // MLA_CLI_STOP_FILTER_H_
