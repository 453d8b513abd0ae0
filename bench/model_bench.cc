#include "bench/model_bench.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>

#include "bench/contention.h"
#include "bench/memory.h"
#include "formats/default_positions.h"
#include "kernels/activate.h"
#include "model/model.h"
#include "report/out_of_memory.h"
#include "report/statistics.h"
#include "train/adamw.h"
#include "train/process.h"
#include "zoo/abilities.h"
#include "zoo/system.h"

namespace cosformer::bench {
namespace {

using report::Median;
using torch::Tensor;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double TimeOf(const std::function<void()>& call) {
  const double begin = Now();
  call();
  return Now() - begin;
}

ModelConfig ModelOf(const ModelBenchConfig& config, const std::string& attention, int64_t length) {
  ModelConfig model = config.model;
  model.kind = config.encoder ? ModelKind::kEncoder : ModelKind::kDecoder;
  model.max_length = length;
  model.attention = {{attention, nlohmann::json::object()}};
  Validate(model, "bench model");
  model.positions.kind = config.positions.value_or(
      DefaultPositions(!config.encoder, std::vector{attention}, model.head_dim, zoo::TakesRotary));
  Validate(model, "bench model");
  return model;
}

// Multiply-adds, each counted as two operations, of the matrix products of one token forward.
double ProductsOf(const ModelConfig& model, zoo::Projections projections) {
  const double width = static_cast<double>(model.width);
  const double heads = static_cast<double>(model.heads * model.head_dim);
  const double kv = static_cast<double>(model.kv_heads * model.head_dim);
  const double feed_forward =
      static_cast<double>(PreWidth(model.activation, model.hidden) + model.hidden);
  // What the system takes no projection of is not computed.
  const double queries = projections == zoo::Projections::kValue ? 0 : heads;
  const double keys = projections == zoo::Projections::kQueryKeyValue ? kv : 0;
  const double layer = width * (queries + keys + kv + heads + feed_forward);
  return 2 * (static_cast<double>(model.layers) * layer +
              width * static_cast<double>(model.vocabulary));
}

// The speed of one matrix product of the kind that the model is made of.
double SampleSgemm() {
  constexpr int64_t kRows = 2048, kInner = 512, kColumns = 2048;
  static const Tensor a = torch::randn({kRows, kInner}), b = torch::randn({kColumns, kInner});
  static Tensor c = torch::empty({kRows, kColumns});
  torch::NoGradGuard no_grad;
  torch::mm_out(c, a, b.t());
  const double seconds = TimeOf([&] { torch::mm_out(c, a, b.t()); });
  return 2.0 * kRows * kInner * kColumns / seconds * 1e-9;
}

// The system between the projections, as one layer of the model calls it.
class AttentionAlone {
 public:
  AttentionAlone(const ModelConfig& model, int64_t batch, int64_t length) {
    zoo::Geometry geometry;
    geometry.direction =
        model.kind == ModelKind::kDecoder ? Direction::kCausal : Direction::kBidirectional;
    geometry.width = model.width;
    geometry.heads = model.heads;
    geometry.kv_heads = model.kv_heads;
    geometry.dim = geometry.value_dim = model.head_dim;
    geometry.max_length = model.max_length;
    const nlohmann::json none = nlohmann::json::object();
    OptionReader options(none, "attention");
    const zoo::Entry& entry = zoo::FindEntry(model.attention.front().system);
    system_ = entry.make(geometry, options);
    rotary_.base = model.positions.rotary_base;
    if (model.positions.kind == PositionKind::kRotary && entry.rotary == zoo::RotaryUse::kInside) {
      inputs_.rotary = &rotary_;
    }
    // Queries, keys and values are slices of one projection.
    const int64_t heads = model.heads + 2 * model.kv_heads;
    const Tensor all = torch::randn({batch, length, heads, model.head_dim}).requires_grad_();
    const auto parts = all.split_with_sizes({model.heads, model.kv_heads, model.kv_heads}, 2);
    if (system_->projections() != zoo::Projections::kValue) inputs_.q = parts[0];
    if (system_->projections() == zoo::Projections::kQueryKeyValue) inputs_.k = parts[1];
    inputs_.v = parts[2];
    inputs_.x = torch::randn({batch, length, model.width}).requires_grad_();
    gradient_ = torch::randn({batch, length, model.heads, model.head_dim});
    layers_ = static_cast<double>(model.layers);
    all_ = all;
  }

  zoo::Projections projections() const { return system_->projections(); }

  // Of all layers.
  double Forward() {
    system_->eval();
    torch::NoGradGuard no_grad;
    return layers_ * TimeOf([&] { system_->Forward(inputs_); });
  }
  // The time that is spent in the slices of the projection is the model's, not the attention's.
  double ForwardAndBackward() {
    system_->train();
    zoo::Inputs leaves = inputs_;
    std::vector<Tensor> wanted;
    for (Tensor* tensor : {&leaves.q, &leaves.k, &leaves.v, &leaves.x}) {
      if (!tensor->defined()) continue;
      *tensor = tensor->detach().requires_grad_();
      wanted.push_back(*tensor);
    }
    return layers_ * TimeOf([&] {
             system_->Forward(leaves).backward(gradient_);
             for (Tensor& tensor : wanted) tensor.mutable_grad() = Tensor();
           });
  }

 private:
  std::shared_ptr<zoo::System> system_;
  zoo::Rotary rotary_;
  zoo::Inputs inputs_;
  Tensor all_, gradient_;
  double layers_ = 1;
};

class Runner {
 public:
  Runner(const ModelBenchConfig& config, report::Progress& progress)
      : config_(config), progress_(progress) {}

  ModelBench Run() {
    bench_.config = config_;
    bench_.threads = SetThreads(config_.threads);
    bench_.blas_complaint = BlasComplaint();
    RefuseMoreThanAvailable();
    // What cannot be is said before anything is measured.
    for (const std::string& name : config_.attention) {
      CheckAble(zoo::FindEntry(name),
                config_.encoder ? Direction::kBidirectional : Direction::kCausal);
    }
    progress_.SetTotal(static_cast<int>(config_.lengths.size() * config_.attention.size()));
    for (const int64_t length : config_.lengths) {
      for (const std::string& name : config_.attention) {
        progress_.Next(fmt::format("{} at length {}", name, length));
        try {
          Measure(name, length);
        } catch (const report::OutOfMemory& error) {
          no_room_ = std::current_exception();
          bench_.skipped.push_back({name, pass_, length, error.what()});
        } catch (const std::bad_alloc&) {
          no_room_ = std::current_exception();
          bench_.skipped.push_back({name, pass_, length, "out of memory"});
        }
      }
    }
    if (bench_.rows.empty()) std::rethrow_exception(no_room_);
    bench_.sgemm_gflops = Median(sgemm_);
    for (size_t i = 0; i < bench_.rows.size(); ++i) {
      bench_.rows[i].sgemm_share =
          PossibleShare(products_[i] / (bench_.sgemm_gflops * 1e9) / bench_.rows[i].seconds);
    }
    return std::move(bench_);
  }

 private:
  void Measure(const std::string& name, int64_t length) {
    pass_ = config_.passes.front();
    torch::manual_seed(1);
    const ModelConfig config = ModelOf(config_, name, length);
    const int64_t batch = std::max<int64_t>(1, config_.tokens / length);
    Model model(config);
    const Tensor tokens = torch::randint(config.vocabulary, {batch, length}, torch::kInt64);
    Tensor targets = torch::roll(tokens, -1, 1);
    for (const std::string& pass : config_.passes) {
      progress_.Show(fmt::format("{} at length {}: {}", name, length, pass));
      pass_ = pass;
      const bool train = pass == "train";
      AdamW optimiser(GroupsOf(*model), {});
      const auto step = [&] {
        if (train) {
          model->train();
          model->Loss(model->Encode(tokens), targets).loss.backward();
          optimiser.Step();
          optimiser.ZeroGradients();
        } else {
          model->eval();
          torch::NoGradGuard no_grad;
          model->Loss(model->Encode(tokens), targets);
        }
      };
      std::optional<int64_t> peak;
      {
        const PeakMemory memory;
        step();  // also warms up
        peak = memory.Peak();
      }
      // Together with the step only after its memory was read.
      AttentionAlone alone(config, batch, length);
      const auto attention = [&] { return train ? alone.ForwardAndBackward() : alone.Forward(); };
      attention();
      std::vector<double> steps, alones;
      double spent = 0;
      const Contention contention;
      // A median worth its name, unless one step alone takes minutes.
      while (steps.empty() || spent < config_.seconds ||
             (steps.size() < 3 && spent < 4 * config_.seconds)) {
        steps.push_back(TimeOf(step));
        alones.push_back(attention());
        sgemm_.push_back(SampleSgemm());
        spent += steps.back() + alones.back();
      }
      ModelRow row;
      row.attention = name;
      row.positions = config.positions.kind;
      row.pass = pass;
      row.length = length;
      row.batch = batch;
      row.threads = bench_.threads;
      row.seconds = Median(steps);
      row.tokens_per_second = static_cast<double>(batch * length) / row.seconds;
      row.attention_share = PossibleShare(Median(alones) / row.seconds);
      row.waited_part = contention.WaitedPart();
      row.peak_bytes = peak;
      row.parameters = model->ParameterCount();
      bench_.rows.push_back(row);
      products_.push_back((train ? 3 : 1) * ProductsOf(config, alone.projections()) *
                          static_cast<double>(batch * length));
    }
  }

  const ModelBenchConfig& config_;
  report::Progress& progress_;
  ModelBench bench_;
  std::vector<double> sgemm_;
  std::string pass_;              // that is being measured
  std::exception_ptr no_room_;    // of the last measurement that was skipped
  std::vector<double> products_;  // of each row, operations a step
};

}  // namespace

std::optional<double> PossibleShare(double share) {
  constexpr double kNoise = 0.05;
  if (!(share <= 1 + kNoise)) return std::nullopt;
  return std::min(share, 1.0);
}

ModelBench RunModelBench(const ModelBenchConfig& config, report::Progress& progress) {
  return Runner(config, progress).Run();
}

}  // namespace cosformer::bench
