#include "tokenizer/split_behavior.h"

#include <algorithm>

#include "base/check.h"

namespace mla {
namespace {

struct Segment {
  Span span;
  bool is_match;
};

std::vector<Segment> Segments(size_t size, const std::vector<Span>& matches, bool invert) {
  std::vector<Segment> segments;
  segments.reserve(2 * matches.size() + 1);
  size_t from = 0;
  for (const Span& match : matches) {
    if (from != match.begin) segments.push_back({{from, match.begin}, invert});
    segments.push_back({match, !invert});
    from = match.end;
  }
  if (from != size) segments.push_back({{from, size}, invert});
  return segments;
}

/// Joins each match that does not follow another match to the part before it.
void MergeWithPrevious(const std::vector<Segment>& segments, std::vector<Span>* parts) {
  bool previous_match = false;
  bool any = false;
  for (const Segment& segment : segments) {
    if (segment.is_match && !previous_match && any) {
      parts->back().end = segment.span.end;
    } else {
      parts->push_back(segment.span);
      any = true;
    }
    previous_match = segment.is_match;
  }
}

void MergeWithNext(const std::vector<Segment>& segments, std::vector<Span>* parts) {
  bool previous_match = false;
  bool any = false;
  for (auto it = segments.rbegin(); it != segments.rend(); ++it) {
    if (it->is_match && !previous_match && any) {
      parts->back().begin = it->span.begin;
    } else {
      parts->push_back(it->span);
      any = true;
    }
    previous_match = it->is_match;
  }
  std::reverse(parts->begin(), parts->end());
}

void MergeRuns(const std::vector<Segment>& segments, std::vector<Span>* parts) {
  bool previous_match = false;
  bool any = false;
  for (const Segment& segment : segments) {
    if (segment.is_match == previous_match && any) {
      parts->back().end = segment.span.end;
    } else {
      parts->push_back(segment.span);
      any = true;
    }
    previous_match = segment.is_match;
  }
}

}  // namespace

SplitBehavior ParseSplitBehavior(std::string_view name, std::string_view where) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  Fail(ErrorCode::kBadInput,
       "{}: unknown behavior \"{}\"; expected Removed, Isolated, MergedWithPrevious, "
       "MergedWithNext or Contiguous",
       where, name);
}

void SplitAt(size_t size, const std::vector<Span>& matches, SplitBehavior behavior, bool invert,
             std::vector<Span>* parts) {
  parts->clear();
  const std::vector<Segment> segments = Segments(size, matches, invert);
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Segment& segment : segments) parts->push_back(segment.span);
      break;
    case SplitBehavior::kRemoved:
      for (const Segment& segment : segments) {
        if (!segment.is_match) parts->push_back(segment.span);
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      MergeWithPrevious(segments, parts);
      break;
    case SplitBehavior::kMergedWithNext:
      MergeWithNext(segments, parts);
      break;
    case SplitBehavior::kContiguous:
      MergeRuns(segments, parts);
      break;
  }
  std::erase_if(*parts, [](const Span& part) { return part.begin == part.end; });
}

}  // namespace mla
