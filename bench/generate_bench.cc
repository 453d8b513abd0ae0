#include "bench/generate_bench.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "bench/memory.h"
#include "cosformer/error.h"
#include "cosformer/runtime.h"
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

// What the mathematics asks for; what an implementation does beyond it does not count.
struct Work {
  double operations = 0;  // two a multiply-add
  double bytes = 0;
};

double LayerWeights(const Network& network) {
  double count = 0;
  for (const runtime::LayerParameters& layer : network.parameters().layers) {
    for (const Weights* w : {&layer.in, &layer.out, &layer.hidden, &layer.back}) {
      count += static_cast<double>(w->rows) * static_cast<double>(w->columns);
    }
  }
  return count;
}

const Weights& HeadOf(const Network& network) {
  return network.config().tied_embeddings ? network.parameters().tokens
                                          : network.parameters().output;
}

// Of one token of one session with `context` behind it: the states' part in it.
Work AttentionWork(const Network& network, double context) {
  Work work;
  for (const runtime::LayerAttention& layer : network.attention()) {
    const double square = static_cast<double>(layer.dim) * static_cast<double>(layer.dim);
    const auto heads = static_cast<double>(layer.heads), kv = static_cast<double>(layer.kv_heads);
    if (layer.softmax) {
      work.operations += 4 * static_cast<double>(layer.dim) * heads * context;
      work.bytes += 2 * 4 * static_cast<double>(layer.dim) * kv * context;
      continue;
    }
    const double states = layer.options.kernel.reweighting == Reweighting::kCos ? 2 : 1;
    work.operations += states * 2 * square * (heads + kv);
    // Read and written; where a step passes over ReLU's zeros, which are every second feature of a
    // random model's keys and queries, three quarters and a half of it.
    const bool spares =
        layer.options.kernel.feature_map == FeatureMap::kRelu && !layer.options.gate;
    const double passes = spares ? 0.75 + 0.5 : 2;
    work.bytes += states * passes * 4 * (square + static_cast<double>(layer.dim)) * kv;
  }
  return work;
}

// The memory of the weights that a step reads, scales left out.
std::vector<Bytes> WeightMemory(const Network& network) {
  std::vector<Bytes> pieces;
  const auto add = [&](const Weights& w) {
    pieces.emplace_back(static_cast<const uint8_t*>(w.data), static_cast<size_t>(w.data_bytes()));
  };
  for (const runtime::LayerParameters& layer : network.parameters().layers) {
    for (const Weights* w : {&layer.in, &layer.out, &layer.hidden, &layer.back}) add(*w);
  }
  add(HeadOf(network));
  return pieces;
}

double WeightBytes(const Network& network) {
  double bytes = static_cast<double>(HeadOf(network).bytes());
  for (const runtime::LayerParameters& layer : network.parameters().layers) {
    for (const Weights* w : {&layer.in, &layer.out, &layer.hidden, &layer.back}) {
      bytes += static_cast<double>(w->bytes());
    }
  }
  return bytes;
}

Work PrefillWork(const Network& network, int64_t tokens) {
  const Work attention = AttentionWork(network, static_cast<double>(tokens) / 2);
  return {(2 * LayerWeights(network) + attention.operations) * static_cast<double>(tokens),
          WeightBytes(network)};
}

Work StepWork(const Network& network, int64_t context, int64_t batch) {
  const Work attention = AttentionWork(network, static_cast<double>(context));
  const Weights& head = HeadOf(network);
  const double weights =
      LayerWeights(network) + static_cast<double>(head.rows) * static_cast<double>(head.columns);
  return {(2 * weights + attention.operations) * static_cast<double>(batch),
          WeightBytes(network) + attention.bytes * static_cast<double>(batch)};
}

// One thing to be timed: a pass over its parts does `tokens` tokens of work.
struct Item {
  int64_t context = 0;
  int64_t batch = 1;
  double tokens = 1;
  std::optional<Work> work;
  size_t parts = 1;
  std::function<void(size_t part)> call;
  std::function<size_t()> state_bytes;  // of one text
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
  std::vector<float> keys, values;
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
      if (auto* cache = std::get_if<SoftmaxCache>(&text.layers[i])) {
        cache->Append(k, v);
      } else if (auto* linear = std::get_if<LinearState>(&text.layers[i])) {
        linear->Absorb(k, v, network.threads());
      } else {
        auto& turned = std::get<runtime::TurnedState>(text.layers[i]);
        turned.sums.Absorb(k, v, network.threads());
        if (turned.normaliser) {
          const std::vector<float> ones(static_cast<size_t>(part * layer.kv_heads), 1.0f);
          turned.normaliser->Absorb(k, ConstView::Of(ones.data(), 1, part, layer.kv_heads, 1),
                                    network.threads());
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

class Runner {
 public:
  Runner(GenerateBench& bench, report::Progress& progress) : bench_(bench), progress_(progress) {}

  void Run(WeightType weights, int threads) {
    progress_.Show(fmt::format("making a model in {}", runtime::Name(weights)));
    runtime::LoadOptions options;
    options.threads = threads;
    const ModelConfig& config = bench_.config.model;
    const Model model = runtime::ModelBuilder::Build(
        config, runtime::RandomParameters(config, weights, 1), nullptr, {}, options);
    bench_.parameters = model.parameters();
    CheckModel(model);
    weights_ = weights;
    threads_ = threads;
    memory_ = WeightMemory(model.network());
    reads_.clear();
    peaks_.clear();
    for (const Phase phase : bench_.config.phases) {
      if (phase == Phase::kPrefill) Prefill(model);
      if (phase == Phase::kDecode) Decode(model);
      if (phase == Phase::kBatch) Batch(model);
      if (phase == Phase::kStart) Start(model);
    }
    if (!reads_.empty()) {
      bench_.limits.push_back({weights, threads, Median(reads_), Median(peaks_)});
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
    std::vector<double> peaks, reads;
    const auto sample = [&](int count) {
      for (int i = 0; i < count; ++i) {
        peaks.push_back(SampleMultiplyAdds(threads_));
        reads.push_back(SampleReads(memory_, threads_));
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
      for (size_t other = 0; peak && other < items.size(); ++other) {
        if (other != i) *peak -= HeldBy(items[other]);
      }
      timings[i].peak_bytes = std::max(timings[i].peak_bytes, peak);
      return seconds;
    };
    for (size_t i = 0; i < items.size(); ++i) {
      timings[i].parts.resize(items[i].parts);
      if (items[i].parts == 1) watch(i, 0);
    }
    sample(kAround);
    bool more = true;
    for (size_t round = 0; more; ++round) {
      more = false;
      for (size_t i = 0; i < items.size(); ++i) {
        const Item& item = items[i];
        Timing& timing = timings[i];
        progress_.Show(fmt::format("{}, {}, {} tokens, {} at a time", runtime::Name(weights_),
                                   NameOf(phase), item.context, item.batch));
        sample(1);
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
    sample(kAround);
    for (size_t i = 0; i < items.size(); ++i) {
      AddRow(phase, items[i], timings[i], Median(peaks), Median(reads));
    }
    reads_.insert(reads_.end(), reads.begin(), reads.end());
    peaks_.insert(peaks_.end(), peaks.begin(), peaks.end());
  }

  static int64_t HeldBy(const Item& item) {
    return item.batch * static_cast<int64_t>(item.state_bytes());
  }

  void AddRow(Phase phase, const Item& item, const Timing& timing, double fma_gflops,
              double read_gbps) {
    GenerateRow row;
    row.phase = phase;
    row.weights = weights_;
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

  void Show(Phase phase, const std::string& of) {
    progress_.Show(fmt::format("{}, {}{}", runtime::Name(weights_), NameOf(phase), of));
  }

  // Long prompts in parts, which take turns with the shorter prompts.
  void Prefill(const Model& model) {
    constexpr int64_t kPart = 4096;
    std::vector<Item> items;
    for (const int64_t length : bench_.config.prompts) {
      const auto tokens = std::make_shared<std::vector<int32_t>>(SomeTokens(model, length));
      const auto session = std::make_shared<std::optional<Session>>();
      Item& item = items.emplace_back();
      item.context = length;
      item.tokens = static_cast<double>(length);
      item.work = PrefillWork(model.network(), length);
      item.parts = static_cast<size_t>((length + kPart - 1) / kPart);
      item.call = [=, &model](size_t part) {
        if (part == 0) session->emplace(model, runtime::SessionOptions{.checkpoints = 0});
        const auto begin = static_cast<int64_t>(part) * kPart;
        (*session)->Feed(std::span(*tokens).subspan(
            static_cast<size_t>(begin), static_cast<size_t>(std::min(kPart, length - begin))));
      };
      item.state_bytes = [=] { return *session ? (*session)->state_bytes() : 0; };
    }
    TimeInTurns(Phase::kPrefill, items);
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

    const Network& network;
    const int32_t token = 1;
    std::vector<TextState> texts;
    std::vector<runtime::Turn> turns;
    std::vector<float> hidden, logits;
  };

  Item Steps(const Model& model, Phase phase, int64_t context, int64_t batch) {
    Show(phase, fmt::format(", {} texts of {} tokens", batch, context));
    const auto texts = std::make_shared<Texts>(model, context, batch);
    Item item;
    item.context = context;
    item.batch = batch;
    item.tokens = static_cast<double>(batch);
    item.work = StepWork(model.network(), context, batch);
    item.call = [=](size_t) { texts->Step(); };
    item.state_bytes = [=] { return BytesOf(texts->texts[0]); };
    return item;
  }

  void Decode(const Model& model) {
    std::vector<Item> items;
    for (const int64_t context : bench_.config.contexts) {
      items.push_back(Steps(model, Phase::kDecode, context, 1));
    }
    TimeInTurns(Phase::kDecode, items);
  }

  void Batch(const Model& model) {
    constexpr int64_t kContext = 16;
    std::vector<Item> items;
    for (const int64_t batch : bench_.config.batches) {
      items.push_back(Steps(model, Phase::kBatch, kContext, batch));
    }
    TimeInTurns(Phase::kBatch, items);
  }

  // A process of its own loads the model from files that were just written, and says a token.
  void Start(const Model& model) {
    Show(Phase::kStart, "");
    namespace fs = std::filesystem;
    std::string name = (fs::temp_directory_path() / "cosformer_bench_XXXXXX").string();
    const char* made = mkdtemp(name.data());
    if (made == nullptr) {
      bench_.notes.push_back("no start: a temporary directory could not be made");
      return;
    }
    const fs::path directory(made);
    try {
      const Network& network = model.network();
      WriteConfig((directory / "config.json").string(), network.config());
      runtime::WriteParameters(network.config(), network.parameters(),
                               (directory / "model.safetensors").string());
      Item item;
      item.call = [&](size_t) { FirstToken(directory); };
      item.state_bytes = [] { return size_t{0}; };
      TimeInTurns(Phase::kStart, {&item, 1});
      bench_.rows.back().peak_bytes.reset();  // it is not this process's
    } catch (...) {
      fs::remove_all(directory);
      throw;
    }
    fs::remove_all(directory);
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
  report::Progress& progress_;
  WeightType weights_ = WeightType::kFloat32;
  int threads_ = 1;
  std::vector<Bytes> memory_;          // of the weights
  std::vector<double> reads_, peaks_;  // of all phases
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
  Runner runner(bench, progress);
  for (const int threads : config.threads) {
    for (const WeightType weights : config.weights) runner.Run(weights, threads);
  }
  return bench;
}

}  // namespace cosformer::bench
