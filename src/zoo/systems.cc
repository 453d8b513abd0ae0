// The systems by name, and the sentences for what they cannot do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "formats/option_reader.h"
#include "zoo/abilities.h"
#include "zoo/system.h"

namespace cosformer::zoo {
namespace {

std::string NamesOf(bool Abilities::*ability) {
  std::vector<std::string> names;
  for (const Entry& entry : Entries()) {
    if (entry.abilities.*ability) names.push_back(entry.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> list;
    AddSoftmax(list);
    AddFeatureAttention(list);
    AddPerformer(list);
    AddRandomFeatures(list);
    AddSparse(list);
    AddReformer(list);
    AddLinformer(list);
    AddBigBird(list);
    AddLongformer(list);
    AddLocal(list);
    AddSynthesizer(list);
    AddSinkhorn(list);
    return list;
  }();
  return entries;
}

const Entry& FindEntry(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : Entries()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  const std::string nearest = Nearest(name, names);
  throw Error(fmt::format("there is no attention \"{}\"{}; there are {}", name,
                          nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest),
                          fmt::join(names, ", ")));
}

bool TakesRotary(const std::string& system) {
  const std::vector<Entry>& entries = Entries();
  return std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.name == system && entry.rotary != RotaryUse::kNone;
  });
}

void CheckAble(const Entry& entry, bool Abilities::*ability, const char* what) {
  if (entry.abilities.*ability) return;
  throw Error(
      fmt::format("attention {} does not do {}; these do: {}", entry.name, what, NamesOf(ability)));
}

void CheckAble(const Entry& entry, Direction direction) {
  switch (direction) {
    case Direction::kCausal:
      return CheckAble(entry, &Abilities::causal, "causal attention");
    case Direction::kBidirectional:
      return CheckAble(entry, &Abilities::bidirectional, "bidirectional attention");
    case Direction::kCross:
      return CheckAble(entry, &Abilities::cross, "cross attention");
  }
}

std::unique_ptr<Stream> System::NewStream(int64_t) {
  throw Error("this attention does not stream");  // AttentionImpl has asked the entry before
}

}  // namespace cosformer::zoo

namespace cosformer {

std::vector<SystemDescription> AttentionSystems() {
  std::vector<SystemDescription> list;
  for (const zoo::Entry& entry : zoo::Entries()) {
    list.push_back({entry.name, entry.summary, entry.abilities});
  }
  return list;
}

}  // namespace cosformer
