#include "bench/generate_bench.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "bench/generate_work.h"
#include "bench/memory.h"
#include "cosformer/error.h"
#include "cosformer/runtime.h"
#include "formats/default_positions.h"
#include "formats/tokenizer.h"
#include "report/clock.h"
#include "report/statistics.h"
#include "runtime/model_builder.h"
#include "runtime/network.h"

namespace cosformer::bench {
namespace {

using report::Clock;
using report::Median;
using report::SecondsSince;
using runtime::Model;
using runtime::Network;
using runtime::Session;
using runtime::TextState;

// A model with weights of one type. All are at hand together, so that they can be timed in turns.
struct TypedModel {
  TypedModel(WeightType weights, const ModelConfig& config, int threads)
      : weights(weights),
        model(runtime::ModelBuilder::Build(config, runtime::RandomParameters(config, weights, 1),
                                           nullptr, {}, {.threads = threads})),
        memory(WeightMemory(model.network())) {}

  const Network& network() const { return model.network(); }
  int64_t Held() const {
    return model.weight_bytes() + static_cast<int64_t>(network().work_bytes());
  }

  WeightType weights;
  Model model;
  std::vector<Bytes> memory;    // of the weights
  std::vector<double> reads{};  // samples of reading them, in all phases
};

// One thing to be timed: a pass over its parts does `tokens` tokens of work.
struct Item {
  TypedModel* typed = nullptr;
  int64_t context = 0;
  int64_t batch = 1;
  double tokens = 1;
  std::optional<GenerateWork> work;
  size_t parts = 1;
  std::function<void(size_t part)> call;
  std::function<size_t()> state_bytes = [] { return size_t{0}; };  // of one text
  std::function<size_t()> held_bytes = state_bytes;                // of all that it keeps
};

// What became of it. The time of a part is the median of its calls'.
struct Timing {
  std::vector<std::vector<double>> parts;  // seconds of each call
  double spent = 0;
  std::optional<int64_t> peak_bytes;

  double Seconds() const {
    double seconds = 0;
    for (const std::vector<double>& calls : parts) seconds += Median(calls);
    return seconds;
  }
};

// A directory that is gone when it is no longer needed.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "cosformer_bench_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty: it could not be made

 private:
  std::filesystem::path path_;
};

// Tokens that a model has as many of as anyone asks.
std::vector<int32_t> SomeTokens(const Model& model, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  uint64_t x = 1;
  for (int32_t& token : tokens) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<int32_t>((x >> 33) % static_cast<uint64_t>(model.vocabulary()));
  }
  return tokens;
}

// A text of `context` tokens, without reading them through the weights: every layer takes in keys
// and values as a layer's projections give them. Its numbers are of no text; its size and its speed
// are.
TextState TextOf(const Network& network, int64_t context) {
  constexpr int64_t kPart = 4096;
  TextState text = network.NewText();
  std::vector<float> keys, values, keep;
  for (size_t i = 0; i < text.layers.size(); ++i) {
    const runtime::LayerAttention& layer = network.attention()[i];
    const int64_t row = layer.kv_heads * layer.dim;
    keys.resize(static_cast<size_t>(kPart * row));
    values.resize(keys.size());
    for (size_t j = 0; j < keys.size(); ++j) {
      keys[j] = static_cast<float>((j * 2654435761u >> 12) & 1023) / 512.0f - 1.0f;
      values[j] = static_cast<float>((j * 2246822519u >> 12) & 1023) / 512.0f - 1.0f;
    }
    for (int64_t done = 0; done < context;) {
      const int64_t part = std::min(kPart, context - done);
      const ConstView k = View::Of(keys.data(), 1, part, layer.kv_heads, layer.dim);
      const ConstView v = View::Of(values.data(), 1, part, layer.kv_heads, layer.dim);
      if (layer.options.gate) keep.assign(static_cast<size_t>(part * layer.kv_heads), 0.99f);
      if (auto* cache = std::get_if<SoftmaxCache>(&text.layers[i])) {
        cache->Append(k, v);
      } else if (auto* linear = std::get_if<LinearState>(&text.layers[i])) {
        linear->Absorb(k, v, network.threads(), keep);
      } else {
        auto& turned = std::get<runtime::TurnedState>(text.layers[i]);
        turned.sums.Absorb(k, v, network.threads(), keep);
        if (turned.normaliser) {
          const std::vector<float> ones(static_cast<size_t>(part * layer.kv_heads), 1.0f);
          turned.normaliser->Absorb(k, ConstView::Of(ones.data(), 1, part, layer.kv_heads, 1),
                                    network.threads(), keep);
        }
      }
      done += part;
    }
  }
  text.position = context;
  return text;
}

size_t BytesOf(const TextState& text) {
  size_t bytes = 0;
  for (const auto& layer : text.layers) bytes += runtime::BytesOf(layer);
  return bytes;
}

// A prompt as a whole and token by token: if these disagree, no time is worth anything.
void CheckModel(const Model& model) {
  const std::vector<int32_t> tokens = SomeTokens(model, 40);
  const std::vector<float> whole = model.network().Encode(tokens);
  Session session(model, {.checkpoints = 0});
  session.Feed(std::span(tokens).first(25));
  for (size_t i = 25; i < tokens.size(); ++i) session.Feed(tokens[i]);
  std::vector<float> expected(static_cast<size_t>(model.vocabulary()));
  model.network().Logits(
      whole.data() + (tokens.size() - 1) * static_cast<size_t>(model.network().config().width), 1,
      expected.data());
  const std::vector<float> logits = session.Logits();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(std::abs(logits[i] - expected[i]) <= 1e-3f * (1 + std::abs(expected[i])))) {
      throw Error(fmt::format(
          "bench generate: the prompt gives logit {} as {} at once and as {} token by token", i,
          expected[i], logits[i]));
    }
  }
}

// Texts that a step goes on with.
struct Texts {
  Texts(const Model& model, int64_t context, int64_t batch)
      : network(model.network()),
        texts(static_cast<size_t>(batch), TextOf(network, context)),
        hidden(static_cast<size_t>(batch * network.config().width)),
        logits(static_cast<size_t>(batch * model.vocabulary())) {
    for (TextState& text : texts) turns.push_back({&text, std::span(&token, 1)});
  }
  Texts(const Texts&) = delete;

  void Step() {
    network.Advance(turns, hidden.data());
    network.Logits(hidden.data(), static_cast<int64_t>(turns.size()), logits.data());
  }
  size_t Held() const {
    return texts.size() * BytesOf(texts[0]) + (hidden.size() + logits.size()) * sizeof(float);
  }

  const Network& network;
  const int32_t token = 1;
  std::vector<TextState> texts;
  std::vector<runtime::Turn> turns;
  std::vector<float> hidden, logits;
};

// All measurements with one number of threads.
class Runner {
 public:
  Runner(GenerateBench& bench, int threads, report::Progress& progress)
      : bench_(bench), threads_(threads), progress_(progress) {}

  void Run() {
    for (const WeightType weights : bench_.config.weights) {
      progress_.Show(fmt::format("making a model in {}", runtime::Name(weights)));
      CheckModel(models_.emplace_back(weights, bench_.config.model, threads_).model);
    }
    bench_.parameters = models_.front().model.parameters();
    for (const Phase phase : bench_.config.phases) {
      if (phase == Phase::kPrefill) Prefill();
      if (phase == Phase::kDecode) Decode();
      if (phase == Phase::kBatch) Batch();
      if (phase == Phase::kStart) Start();
    }
    for (const TypedModel& typed : models_) {
      if (typed.reads.empty()) continue;
      bench_.limits.push_back({typed.weights, threads_, Median(typed.reads), Median(peaks_)});
    }
  }

 private:
  // Times the items in turns, each for --seconds at least: the machine changes from moment to
  // moment, and what is to be compared should have met the same ones. Adds their rows.
  void TimeInTurns(Phase phase, std::span<Item> items) {
    // Short calls go several at a time, so that most of them find the caches as they leave them. Of
    // long ones there may be one: more samples around it, since a moment is not like the next.
    constexpr double kAtATime = 0.05;
    constexpr int kAround = 4;
    std::vector<double> peaks;
    std::map<const TypedModel*, std::vector<double>> reads;
    const auto sample = [&](const TypedModel* typed) {
      peaks.push_back(SampleMultiplyAdds(threads_));
      reads[typed].push_back(SampleReads(typed->memory, threads_));
    };
    const auto sample_all = [&] {
      for (int i = 0; i < kAround; ++i) {
        for (const TypedModel& typed : models_) sample(&typed);
      }
    };
    std::vector<Timing> timings(items.size());
    // Watching memory costs a short call some of its speed: it is watched in the first pass, which
    // is not timed where it is one call.
    const auto watch = [&](size_t i, size_t part) {
      const PeakMemory memory;
      const auto begin = Clock::now();
      items[i].call(part);
      const double seconds = SecondsSince(begin);
      std::optional<int64_t> peak = memory.Peak();
      if (peak) *peak -= HeldByOthers(items, i);
      timings[i].peak_bytes = std::max(timings[i].peak_bytes, peak);
      return seconds;
    };
    for (size_t i = 0; i < items.size(); ++i) {
      timings[i].parts.resize(items[i].parts);
      if (items[i].parts == 1) watch(i, 0);
    }
    sample_all();
    bool more = true;
    for (size_t round = 0; more; ++round) {
      more = false;
      for (size_t i = 0; i < items.size(); ++i) {
        const Item& item = items[i];
        Timing& timing = timings[i];
        progress_.Show(fmt::format("{}, {}, {} tokens, {} at a time",
                                   runtime::Name(item.typed->weights), NameOf(phase), item.context,
                                   item.batch));
        sample(item.typed);
        const size_t part = round % item.parts;
        const double until = timing.spent + kAtATime;
        do {
          double seconds = 0;
          if (item.parts > 1 && round < item.parts) {
            seconds = watch(i, part);
          } else {
            const auto begin = Clock::now();
            item.call(part);
            seconds = SecondsSince(begin);
          }
          timing.parts[part].push_back(seconds);
          timing.spent += seconds;
        } while (item.parts == 1 && timing.spent < until);
        more |= timing.spent < bench_.config.seconds || round + 1 < item.parts;
      }
    }
    sample_all();
    for (size_t i = 0; i < items.size(); ++i) {
      AddRow(phase, items[i], timings[i], Median(peaks), Median(reads[items[i].typed]));
    }
    for (TypedModel& typed : models_) {
      typed.reads.insert(typed.reads.end(), reads[&typed].begin(), reads[&typed].end());
    }
    peaks_.insert(peaks_.end(), peaks.begin(), peaks.end());
  }

  // What is in memory for the sake of other measurements than that of item i.
  int64_t HeldByOthers(std::span<const Item> items, size_t i) const {
    int64_t bytes = 0;
    for (const TypedModel& typed : models_) {
      if (&typed != items[i].typed) bytes += typed.Held();
    }
    for (size_t other = 0; other < items.size(); ++other) {
      if (other != i) bytes += static_cast<int64_t>(items[other].held_bytes());
    }
    return bytes;
  }

  void AddRow(Phase phase, const Item& item, const Timing& timing, double fma_gflops,
              double read_gbps) {
    GenerateRow row;
    row.phase = phase;
    row.weights = item.typed->weights;
    row.context = item.context;
    row.batch = item.batch;
    row.threads = threads_;
    const double seconds = timing.Seconds();
    row.tokens_per_second = item.tokens / seconds;
    if (item.work) {
      const double least = std::max(item.work->operations / (1e9 * fma_gflops),
                                    item.work->bytes / (1e9 * read_gbps));
      row.limit_share = least / seconds;
    }
    row.state_bytes = static_cast<int64_t>(item.state_bytes());
    row.peak_bytes = timing.peak_bytes;
    bench_.rows.push_back(row);
  }

  // Long prompts in parts, which take turns with the shorter prompts.
  void Prefill() {
    constexpr int64_t kPart = 4096;
    std::vector<Item> items;
    for (TypedModel& typed : models_) {
      for (const int64_t length : bench_.config.prompts) {
        const auto tokens = std::make_shared<std::vector<int32_t>>(SomeTokens(typed.model, length));
        const auto session = std::make_shared<std::optional<Session>>();
        Item& item = items.emplace_back();
        item.typed = &typed;
        item.context = length;
        item.tokens = static_cast<double>(length);
        item.work = PrefillWork(typed.network(), length);
        item.parts = static_cast<size_t>((length + kPart - 1) / kPart);
        item.call = [=, &typed](size_t part) {
          if (part == 0) session->emplace(typed.model, runtime::SessionOptions{.checkpoints = 0});
          const auto begin = static_cast<int64_t>(part) * kPart;
          (*session)->Feed(std::span(*tokens).subspan(
              static_cast<size_t>(begin), static_cast<size_t>(std::min(kPart, length - begin))));
        };
        item.state_bytes = [=] { return *session ? (*session)->state_bytes() : 0; };
        item.held_bytes = item.state_bytes;
      }
    }
    TimeInTurns(Phase::kPrefill, items);
  }

  Item Steps(TypedModel& typed, Phase phase, int64_t context, int64_t batch) {
    progress_.Show(fmt::format("{}, {}, {} texts of {} tokens", runtime::Name(typed.weights),
                               NameOf(phase), batch, context));
    const auto texts = std::make_shared<Texts>(typed.model, context, batch);
    Item item;
    item.typed = &typed;
    item.context = context;
    item.batch = batch;
    item.tokens = static_cast<double>(batch);
    item.work = StepWork(typed.network(), context, batch);
    item.call = [=](size_t) { texts->Step(); };
    item.state_bytes = [=] { return BytesOf(texts->texts[0]); };
    item.held_bytes = [=] { return texts->Held(); };
    return item;
  }

  void Decode() {
    std::vector<Item> items;
    for (TypedModel& typed : models_) {
      for (const int64_t context : bench_.config.contexts) {
        items.push_back(Steps(typed, Phase::kDecode, context, 1));
      }
    }
    TimeInTurns(Phase::kDecode, items);
  }

  void Batch() {
    constexpr int64_t kContext = 16;
    std::vector<Item> items;
    for (TypedModel& typed : models_) {
      for (const int64_t batch : bench_.config.batches) {
        items.push_back(Steps(typed, Phase::kBatch, kContext, batch));
      }
    }
    TimeInTurns(Phase::kBatch, items);
  }

  // A process of its own loads the model from files that were just written, and says a token.
  void Start() {
    std::vector<std::unique_ptr<TemporaryDirectory>> directories;
    std::vector<Item> items;
    for (TypedModel& typed : models_) {
      progress_.Show(fmt::format("{}, start", runtime::Name(typed.weights)));
      const std::filesystem::path directory =
          directories.emplace_back(std::make_unique<TemporaryDirectory>())->path();
      if (directory.empty()) {
        bench_.notes.push_back("no start: a temporary directory could not be made");
        return;
      }
      const Network& network = typed.network();
      WriteConfig((directory / "config.json").string(), network.config());
      runtime::SaveParameters(network.config(), network.parameters(), directory.string());
      Item& item = items.emplace_back();
      item.typed = &typed;
      item.call = [this, directory](size_t) { FirstToken(directory); };
    }
    TimeInTurns(Phase::kStart, items);
    // Their memory is not this process's.
    for (size_t i = 0; i < items.size(); ++i)
      std::prev(bench_.rows.end(), i + 1)->peak_bytes.reset();
  }

  void FirstToken(const std::filesystem::path& directory) const {
    const pid_t child = fork();
    if (child < 0) throw Error("bench generate: a process could not be started");
    if (child == 0) {
      const std::string path = directory.string(), threads = std::to_string(threads_);
      if (freopen("/dev/null", "w", stdout) == nullptr) _exit(127);
      execl("/proc/self/exe", "cosformer", "generate", path.c_str(), "--prompt-tokens", "1",
            "--max-tokens", "1", "--threads", threads.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      throw Error("bench generate: the process that was to say a first token failed");
    }
  }

  GenerateBench& bench_;
  int threads_;
  report::Progress& progress_;
  std::deque<TypedModel> models_;  // items point to them
  std::vector<double> peaks_;      // of all phases
};

}  // namespace

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kPrefill:
      return "prefill";
    case Phase::kDecode:
      return "decode";
    case Phase::kBatch:
      return "batch";
    case Phase::kStart:
      return "start";
  }
  return "";
}

GenerateBenchConfig Checked(GenerateBenchConfig config) {
  // A text may be as long as the longest that is measured, and some.
  int64_t longest = 1;
  for (const int64_t length : config.prompts) longest = std::max(longest, length);
  for (const int64_t length : config.contexts) longest = std::max(longest, length);
  constexpr int64_t kSteps = 1 << 20;  // that a measurement may take
  config.model.max_length = longest + kSteps;
  std::vector<std::string> systems;
  for (const SystemConfig& layer : config.model.attention) systems.push_back(layer.system);
  Validate(config.model, "bench generate");
  // All that the runtime has take rotary positions.
  config.model.positions.kind = config.positions.value_or(DefaultPositions(
      /*causal=*/true, systems, config.model.head_dim, [](const std::string&) { return true; }));
  Validate(config.model, "bench generate");
  if (config.model.kind != ModelKind::kDecoder) {
    throw Error("bench generate: only a decoder generates");
  }
  Network::CheckSupported(config.model);
  const auto positive = [](const std::vector<int64_t>& numbers, const char* option, int64_t least) {
    for (const int64_t number : numbers) {
      if (number < least) {
        throw Error(fmt::format("{} has {}; give {} or more", option, number, least));
      }
    }
  };
  positive(config.prompts, "--prompts", 1);
  positive(config.contexts, "--contexts", 0);
  positive(config.batches, "--batches", 1);
  if (config.threads.empty()) config.threads = {AllThreads()};
  for (const int threads : config.threads) {
    if (threads < 1) throw Error(fmt::format("--threads has {}; give 1 or more", threads));
  }
  if (!(config.seconds > 0)) {
    throw Error(fmt::format("--seconds is {}; give more than 0", config.seconds));
  }
  return config;
}

GenerateBench RunGenerateBench(const GenerateBenchConfig& config, report::Progress& progress) {
  GenerateBench bench;
  bench.config = config;
  bench.machine = DescribeMachine(config.threads, 64 << 10, config.seconds);
  for (const int threads : config.threads) Runner(bench, threads, progress).Run();
  return bench;
}

}  // namespace cosformer::bench
