#include "cli/stop_filter.h"

#include <algorithm>
#include <utility>

namespace mla {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

std::string StopFilter::Push(std::string_view piece) {
  if (stopped_) return {};
  pending_.append(piece);
  size_t end = std::string::npos;
  size_t begin = 0;
  for (const std::string& stop : stops_) {
    const size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    const size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < begin)) {
      end = stop_end;
      begin = at;
    }
  }
  if (end != std::string::npos) {
    stopped_ = true;
    return std::exchange(pending_, {}).substr(0, begin);
  }
  const size_t certain = pending_.size() - HeldBack();
  std::string out = pending_.substr(0, certain);
  pending_.erase(0, certain);
  return out;
}

std::string StopFilter::Flush() { return std::exchange(pending_, {}); }

size_t StopFilter::HeldBack() const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n) {
      if (std::string_view(pending_).substr(pending_.size() - n) ==
          std::string_view(stop).substr(0, n)) {
        held = n;
        break;
      }
    }
  }
  return held;
}

}  // namespace mla
