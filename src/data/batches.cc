#include "data/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cosformer/error.h"
#include "formats/text_pair.h"
#include "kernels/random.h"

namespace cosformer::data {
namespace {

// Streams of the seed, so that no draw depends on how many came before it elsewhere.
constexpr uint64_t kOrder = uint64_t{1} << 40, kGroups = uint64_t{2} << 40;
constexpr uint64_t kMasks = uint64_t{3} << 40;

template <class T>
void Shuffle(Random& random, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

// Examples whose lengths are compared at once: enough for rows of nearly one length, few enough
// that batches differ from epoch to epoch.
constexpr int64_t kPool = 8192;

}  // namespace

int64_t Side::Count() const {
  return lengths.empty() ? rows * length
                         : std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

int64_t Batch::Targets() const {
  return std::count_if(targets.begin(), targets.end(), [](int64_t target) { return target >= 0; });
}

Batches::Batches(const Dataset& set, const BatchOptions& options) : set_(set), options_(options) {
  const auto require = [&](bool holds, const std::string& sentence) {
    if (!holds) throw Error(sentence);
  };
  require(options.length >= 2,
          fmt::format("--length is {}; give at least 2 tokens", options.length));
  require(options.tokens >= 1,
          fmt::format("--batch-tokens is {}; give at least 1", options.tokens));
  require(options.stride >= 0 && options.stride <= options.length,
          fmt::format("the stride is {}; it must be from 1 to the length, {}", options.stride,
                      options.length));
  switch (options.objective) {
    case Objective::kMasked:
      require(options.special.mask >= 0,
              "the tokenizer has no token for what is masked (<mask>); train one from the text, or "
              "take bytes");
      require(options.masked > 0 && options.masked < 1,
              fmt::format("--masked is {}; give a part of the tokens, between 0 and 1",
                          options.masked));
      break;
    case Objective::kTranslate:
      require(options.special.begin >= 0 && options.special.end >= 0,
              "the tokenizer has no tokens for where a text begins and ends (<s>, </s>); train one "
              "from the text, or take bytes");
      break;
    case Objective::kClassify:
      require(set.info().parts == 1 || options.special.separator >= 0,
              "the tokenizer has no token to put between two texts (<sep>); train one from the "
              "text, or take bytes");
      break;
    default:
      break;
  }
  if (Windows()) {
    const int64_t next = options.objective == Objective::kCausal ? 1 : 0;
    const int64_t least = next + (options.shuffle ? options.length : 1);
    require(
        set.tokens() >= least,
        fmt::format("\"{}\" has {} tokens; sequences of {} need at least {}: give more text, or "
                    "a shorter --length",
                    set.path(), set.tokens(), options.length, least));
  }
  require(set.examples() > 0, fmt::format("\"{}\" has no examples", set.path()));
}

bool Batches::Windows() const {
  return options_.objective == Objective::kCausal || options_.objective == Objective::kMasked;
}

int64_t Batches::Stride() const {
  const bool overlap = options_.objective == Objective::kCausal && !options_.shuffle;
  return overlap && options_.stride > 0 ? options_.stride : options_.length;
}

// How many tokens window `window` can read: one more follows it, to be predicted by the last.
int64_t Batches::WindowLength(int64_t window, int64_t shift) const {
  const int64_t usable = set_.tokens() - (options_.objective == Objective::kCausal ? 1 : 0);
  return std::min(options_.length, usable - shift - window * Stride());
}

int64_t Batches::SpecialCount() const {
  if (options_.objective != Objective::kClassify) return 0;
  const int64_t begin = !options_.images && options_.special.begin >= 0 ? 1 : 0;
  return begin + (set_.info().parts == 2 ? 1 : 0);
}

int64_t Batches::WholeLengthOf(int64_t example) const {
  const int64_t first = set_.Length(example, 0);
  const int64_t second = set_.info().parts == 2 ? set_.Length(example, 1) : 0;
  switch (options_.objective) {
    case Objective::kClassify:
      return first + second + SpecialCount();
    case Objective::kTranslate:
      return std::max(first, second + 1);
    default:
      return std::max(first, second);
  }
}

int64_t Batches::LengthOf(int64_t example) const {
  return std::min(options_.length, WholeLengthOf(example));
}

int64_t Batches::CountCut() const {
  int64_t cut = 0;
  for (int64_t i = 0; !Windows() && i < set_.examples(); ++i) {
    cut += WholeLengthOf(i) > options_.length;
  }
  return cut;
}

Batches::Plan Batches::PlanOf(int64_t epoch) const {
  Plan plan;
  plan.epoch = epoch;
  Order(plan);
  Group(plan);
  return plan;
}

// The items in the order in which they are taken.
void Batches::Order(Plan& plan) const {
  Random random(options_.seed, kOrder + static_cast<uint64_t>(plan.epoch));
  int64_t items = set_.examples();
  if (Windows()) {
    const int64_t usable = set_.tokens() - (options_.objective == Objective::kCausal ? 1 : 0);
    if (options_.shuffle) {
      // Windows begin elsewhere in every epoch; only full ones are taken.
      const int64_t slack = std::min(options_.length, usable - options_.length + 1);
      plan.shift = static_cast<int64_t>(random.Below(static_cast<uint64_t>(slack)));
      items = (usable - plan.shift) / options_.length;
    } else {
      // Up to the first window that reaches the end.
      items =
          usable <= options_.length ? 1 : 1 + (usable - options_.length + Stride() - 1) / Stride();
    }
  }
  plan.items.resize(static_cast<size_t>(items));
  std::iota(plan.items.begin(), plan.items.end(), int64_t{0});
  if (options_.shuffle) Shuffle(random, plan.items);
  if (Windows() || (options_.packing && options_.shuffle)) return;
  // Rows of like lengths: sorted within pools that are cut from the shuffled order, or all of them.
  const auto pool = options_.shuffle ? kPool : items;
  for (int64_t begin = 0; begin < items; begin += pool) {
    const auto first = plan.items.begin() + begin;
    std::stable_sort(first, first + std::min(pool, items - begin),
                     [&](int64_t a, int64_t b) { return LengthOf(a) < LengthOf(b); });
  }
}

void Batches::Group(Plan& plan) const {
  plan.begins = {0};
  const auto items = static_cast<int64_t>(plan.items.size());
  int64_t begin = 0, sum = 0, longest = 0;
  for (int64_t i = 0; i < items; ++i) {
    const int64_t item = plan.items[static_cast<size_t>(i)];
    const int64_t length = Windows() ? WindowLength(item, plan.shift) : LengthOf(item);
    const int64_t rows = i - begin + 1;
    const bool packed = options_.packing && !Windows();
    const bool full = packed ? sum + length > options_.tokens
                             : rows * std::max(longest, length) > options_.tokens;
    // Windows that share a batch are of one length: the last of a text may be shorter.
    if (rows > 1 && (full || (Windows() && length != longest))) {
      plan.begins.push_back(i);
      begin = i;
      sum = longest = 0;
    }
    sum += length;
    longest = std::max(longest, length);
  }
  plan.begins.push_back(items);
  if (Windows() || options_.packing || !options_.shuffle) return;
  // Batches of short and of long texts take turns.
  std::vector<std::vector<int64_t>> groups;
  for (int64_t b = 0; b < plan.batches(); ++b) {
    groups.emplace_back(plan.items.begin() + plan.begins[static_cast<size_t>(b)],
                        plan.items.begin() + plan.begins[static_cast<size_t>(b) + 1]);
  }
  Random random(options_.seed, kGroups + static_cast<uint64_t>(plan.epoch));
  Shuffle(random, groups);
  plan.items.clear();
  plan.begins = {0};
  for (const auto& group : groups) {
    plan.items.insert(plan.items.end(), group.begin(), group.end());
    plan.begins.push_back(static_cast<int64_t>(plan.items.size()));
  }
}

Batch Batches::Make(const Plan& plan, int64_t index) const {
  Batch batch = Windows() ? MakeWindows(plan, index) : MakeTexts(plan, index);
  batch.sequences =
      plan.begins[static_cast<size_t>(index) + 1] - plan.begins[static_cast<size_t>(index)];
  return batch;
}

Batch Batches::MakeWindows(const Plan& plan, int64_t index) const {
  const int64_t begin = plan.begins[static_cast<size_t>(index)];
  const int64_t rows = plan.begins[static_cast<size_t>(index) + 1] - begin;
  Batch batch;
  Side& input = batch.input;
  input.rows = rows;
  input.length = WindowLength(plan.items[static_cast<size_t>(begin)], plan.shift);
  input.tokens.resize(static_cast<size_t>(rows * input.length));
  batch.targets.assign(input.tokens.size(), -1);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t window = plan.items[static_cast<size_t>(begin + row)];
    const int64_t place = WindowBegin(plan, window);
    int64_t* tokens = input.tokens.data() + row * input.length;
    set_.Copy(place, input.length, tokens);
    if (options_.objective != Objective::kCausal) continue;
    int64_t* targets = batch.targets.data() + row * input.length;
    set_.Copy(place + 1, input.length, targets);
    // What the window before has predicted already.
    const int64_t known = window == 0 ? 0 : options_.length - Stride();
    std::fill(targets, targets + std::min(known, input.length), -1);
  }
  if (options_.objective == Objective::kMasked) {
    Mask(kMasks + (static_cast<uint64_t>(plan.epoch) << 44) + static_cast<uint64_t>(index), batch);
  }
  return batch;
}

// RoBERTa's recipe: of the chosen tokens 80 % become the mask, 10 % some other token, 10 % stay;
// all are to be predicted. Drawn anew in every epoch.
void Batches::Mask(uint64_t stream, Batch& batch) const {
  Random random(options_.seed, stream);
  const SpecialTokens& special = options_.special;
  std::vector<int64_t>& tokens = batch.input.tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double chosen = random.Uniform();
    if (chosen >= options_.masked) continue;
    const int64_t token = tokens[i];
    if (token == special.begin || token == special.end || token == special.separator) continue;
    batch.targets[i] = token;
    const double fate = random.Uniform();
    if (fate < 0.8) {
      tokens[i] = special.mask;
    } else if (fate < 0.9) {
      tokens[i] = static_cast<int64_t>(random.Below(static_cast<uint64_t>(set_.info().vocabulary)));
    }
  }
}

std::vector<int64_t> Batches::Text(int64_t example, int64_t part, int64_t most) const {
  std::vector<int64_t> tokens(static_cast<size_t>(std::min(most, set_.Length(example, part))));
  set_.CopyText(example, part, static_cast<int64_t>(tokens.size()), tokens.data());
  return tokens;
}

// <s> first, or <s> first <sep> second. Of a pair that is too long, the longer text is cut first.
std::vector<int64_t> Batches::Sequence(int64_t example) const {
  const bool pair = set_.info().parts == 2;
  const int64_t room = std::max<int64_t>(0, options_.length - SpecialCount());
  const auto [first, second] =
      CutPair(set_.Length(example, 0), pair ? set_.Length(example, 1) : 0, room);
  std::vector<int64_t> tokens;
  if (!options_.images && options_.special.begin >= 0) tokens.push_back(options_.special.begin);
  const std::vector<int64_t> head = Text(example, 0, first);
  tokens.insert(tokens.end(), head.begin(), head.end());
  if (pair) {
    tokens.push_back(options_.special.separator);
    const std::vector<int64_t> tail = Text(example, 1, second);
    tokens.insert(tokens.end(), tail.begin(), tail.end());
  }
  return tokens;
}

Side Batches::Join(const std::vector<std::vector<int64_t>>& texts, int64_t filler) const {
  Side side;
  if (options_.packing) {
    side.rows = 1;
    side.offsets = {0};
    for (const auto& text : texts) {
      side.tokens.insert(side.tokens.end(), text.begin(), text.end());
      side.offsets.push_back(static_cast<int64_t>(side.tokens.size()));
    }
    side.length = static_cast<int64_t>(side.tokens.size());
    return side;
  }
  side.rows = static_cast<int64_t>(texts.size());
  bool full = true;
  for (const auto& text : texts) {
    side.lengths.push_back(static_cast<int64_t>(text.size()));
    full = full && text.size() == texts.front().size();
    side.length = std::max(side.length, side.lengths.back());
  }
  if (full) side.lengths.clear();
  for (const auto& text : texts) {
    side.tokens.insert(side.tokens.end(), text.begin(), text.end());
    side.tokens.insert(side.tokens.end(), static_cast<size_t>(side.length) - text.size(), filler);
  }
  return side;
}

Batch Batches::MakeTexts(const Plan& plan, int64_t index) const {
  Batch batch;
  std::vector<std::vector<int64_t>> inputs, seconds, targets;
  for (int64_t i = plan.begins[static_cast<size_t>(index)];
       i < plan.begins[static_cast<size_t>(index) + 1]; ++i) {
    const int64_t example = plan.items[static_cast<size_t>(i)];
    switch (options_.objective) {
      case Objective::kClassify:
        inputs.push_back(Sequence(example));
        batch.targets.push_back(set_.Label(example));
        break;
      case Objective::kRetrieve:
        inputs.push_back(Text(example, 0, options_.length));
        seconds.push_back(Text(example, 1, options_.length));
        batch.targets.push_back(set_.Label(example));
        break;
      default: {  // translate
        inputs.push_back(Text(example, 0, options_.length));
        std::vector<int64_t> target = Text(example, 1, options_.length - 1);
        std::vector<int64_t> read = {options_.special.begin};
        read.insert(read.end(), target.begin(), target.end());
        target.push_back(options_.special.end);
        seconds.push_back(std::move(read));
        targets.push_back(std::move(target));
      }
    }
  }
  batch.input = Join(inputs, 0);
  if (!seconds.empty()) batch.second = Join(seconds, 0);
  if (!targets.empty()) batch.targets = Join(targets, -1).tokens;
  return batch;
}

}  // namespace cosformer::data
