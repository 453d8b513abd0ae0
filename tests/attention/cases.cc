#include "cases.h"

#include <algorithm>
#include <sstream>

#include "attention/linear_kernels.h"

namespace cosformer::testing {
namespace {

int64_t RandomLength(Random& random, int64_t longest) {
  switch (Uniform(random, 0, 3)) {
    case 0:
      return Uniform(random, 0, 5);
    case 1:
      return std::min(longest, Uniform(random, 1, 4) * kChunk + Uniform(random, -1, 1));
    default:
      return Uniform(random, 1, longest);
  }
}

int64_t RandomDim(Random& random) {
  return Choose<int64_t>(random, {1, 2, 3, 7, 8, 15, 16, 17, 20, 31, 33, 48, 64, 65, 128});
}

// Keys for a number of queries, and the other way round, as the kind of attention wants them.
enum class Shape { kSelf, kCross, kPrefix };

int64_t RandomKeys(Random& random, Shape shape, int64_t queries, int64_t longest) {
  if (shape == Shape::kCross) return RandomLength(random, longest);
  if (shape == Shape::kPrefix) return queries + RandomLength(random, longest) / 2;
  return queries;
}

void DrawLengths(Case& c, Random& random, Shape shape) {
  for (int64_t b = 0; b < c.batch; ++b) {
    const int64_t queries = Uniform(random, 0, c.queries);
    c.query_lengths.push_back(queries);
    if (shape == Shape::kCross) c.key_lengths.push_back(Uniform(random, 0, c.keys));
    if (shape == Shape::kPrefix) c.key_lengths.push_back(Uniform(random, queries, c.keys));
  }
  // Queries need no padding where only the keys have it.
  if (shape == Shape::kCross && Uniform(random, 0, 2) == 0) c.query_lengths.clear();
}

// Sequences one after the other, with rows of padding before and behind them.
void DrawOffsets(Case& c, Random& random, Shape shape, int64_t longest) {
  c.batch = 1;
  c.query_offsets = {Uniform(random, 0, 2)};
  c.key_offsets = {shape == Shape::kSelf ? c.query_offsets[0] : Uniform(random, 0, 2)};
  const int64_t sequences = Uniform(random, 1, 4);
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t queries = RandomLength(random, longest / 2);
    c.query_offsets.push_back(c.query_offsets.back() + queries);
    c.key_offsets.push_back(c.key_offsets.back() + RandomKeys(random, shape, queries, longest / 2));
  }
  c.queries = c.query_offsets.back() + Uniform(random, 0, 2);
  c.keys = shape == Shape::kSelf ? c.queries : c.key_offsets.back() + Uniform(random, 0, 2);
  if (shape == Shape::kSelf && Uniform(random, 0, 1) == 0) c.key_offsets.clear();
}

int64_t LongestSequence(const Case& c) {
  int64_t longest = 1;
  const auto differences = [&](const std::vector<int64_t>& offsets) {
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      longest = std::max(longest, offsets[s + 1] - offsets[s]);
    }
  };
  if (!c.query_offsets.empty()) {
    differences(c.query_offsets);
    differences(c.key_offsets);
  } else {
    for (const int64_t n : c.query_lengths) longest = std::max(longest, n);
    for (const int64_t n : c.key_lengths) longest = std::max(longest, n);
    if (c.query_lengths.empty()) longest = std::max(longest, c.queries);
    if (c.query_lengths.empty() && c.key_lengths.empty()) longest = std::max(longest, c.keys);
  }
  return longest;
}

LinearKernel RandomKernel(Random& random, int64_t longest) {
  LinearKernel kernel;
  kernel.feature_map = Choose(random, AllFeatureMaps());
  kernel.leaky_slope = Choose(random, std::vector{0.01f, 0.25f});
  kernel.reweighting = Uniform(random, 0, 2) == 0 ? Reweighting::kNone : Reweighting::kCos;
  if (kernel.reweighting == Reweighting::kCos) {
    kernel.horizon = longest + Choose<int64_t>(random, {0, 0, 1, 17, 1000});
  }
  if (Uniform(random, 0, 4) == 0) kernel.normaliser = Normaliser::kNone;
  kernel.epsilon = Choose(random, std::vector{1e-6f, 1e-6f, 1e-2f, 10.f});
  return kernel;
}

}  // namespace

Case SelfAttention(int64_t length, int64_t dim, bool causal) {
  Case c;
  c.queries = c.keys = length;
  c.dim = c.value_dim = dim;
  c.causal = causal;
  c.kernel.horizon = std::max<int64_t>(length, 1);
  return c;
}

Case RandomCase(uint64_t seed) {
  Random random(seed);
  Case c;
  c.seed = seed;
  c.dim = RandomDim(random);
  c.value_dim = Uniform(random, 0, 1) == 0 ? c.dim : RandomDim(random);
  // The reference pays length^2 * dim: wide heads get shorter texts.
  const int64_t longest = c.dim + c.value_dim > 100 ? 2 * kChunk + 9 : 4 * kChunk + 9;
  c.batch = Uniform(random, 1, 3);
  c.kv_heads = Uniform(random, 1, 2);
  c.heads = c.kv_heads * Uniform(random, 1, 3);
  const auto shape = Choose(random, std::vector{Shape::kSelf, Shape::kCross, Shape::kPrefix});
  c.causal = shape == Shape::kPrefix || (shape == Shape::kSelf && Uniform(random, 0, 1) == 0);
  c.queries = RandomLength(random, longest);
  c.keys = RandomKeys(random, shape, c.queries, longest);
  switch (Uniform(random, 0, 3)) {
    case 0:
      DrawLengths(c, random, shape);
      break;
    case 1:
      DrawOffsets(c, random, shape, longest);
      break;
    default:
      break;
  }
  const std::vector<DType> types{DType::kFloat32, DType::kFloat32, DType::kBFloat16};
  c.inputs = Choose(random, types);
  c.outputs = Choose(random, types);
  c.gradients = Choose(random, types);
  c.strided = Uniform(random, 0, 1) == 0;
  c.threads = Choose(random, std::vector{1, 2, 3, 5});
  c.kernel = RandomKernel(random, LongestSequence(c));
  c.scale = Choose(random, std::vector{0.f, 0.f, 0.5f, 1.f, -0.5f});
  c.mean = Choose(random, std::vector{0.f, 0.f, 0.5f, -0.5f});
  c.forgets = c.causal && Uniform(random, 0, 1) == 0;
  return c;
}

Case RandomStream(uint64_t seed, int64_t length) {
  Case c = RandomCase(seed);
  c.queries = c.keys = length;
  c.causal = true;
  c.query_lengths = c.key_lengths = c.query_offsets = c.key_offsets = {};
  if (c.kernel.reweighting == Reweighting::kCos) {
    c.kernel.horizon = length + static_cast<int64_t>(seed % 3);
  }
  return c;
}

std::string Describe(const Case& c) {
  std::ostringstream out;
  const auto type = [](DType t) { return t == DType::kFloat32 ? "float32" : "bfloat16"; };
  const auto list = [&](const char* name, const std::vector<int64_t>& numbers) {
    if (numbers.empty()) return;
    out << ' ' << name << " [";
    for (const int64_t n : numbers) out << ' ' << n;
    out << " ]";
  };
  out << "seed " << c.seed << ": batch " << c.batch << ", queries " << c.queries << ", keys "
      << c.keys << ", heads " << c.heads << '/' << c.kv_heads << ", dims " << c.dim << " and "
      << c.value_dim << (c.causal ? ", causal" : ", bidirectional") << ", " << type(c.inputs)
      << " to " << type(c.outputs) << ", gradients " << type(c.gradients)
      << (c.strided ? ", strided" : ", dense") << ", threads " << c.threads << "; "
      << Name(c.kernel.feature_map) << ", horizon "
      << (c.kernel.reweighting == Reweighting::kCos ? c.kernel.horizon : -1) << ", epsilon "
      << c.kernel.epsilon << (c.kernel.normaliser == Normaliser::kNone ? ", not normalised" : "")
      << (c.forgets ? ", forgets" : "") << "; scale " << c.scale << ", mean " << c.mean << ';';
  list("query_lengths", c.query_lengths);
  list("key_lengths", c.key_lengths);
  list("query_offsets", c.query_offsets);
  list("key_offsets", c.key_offsets);
  return out.str();
}

const std::vector<FeatureMap>& AllFeatureMaps() {
  static const std::vector<FeatureMap> all{FeatureMap::kRelu, FeatureMap::kLeakyRelu,
                                           FeatureMap::kIdentity, FeatureMap::kEluPlusOne,
                                           FeatureMap::kGiven};
  return all;
}

const char* Name(FeatureMap map) {
  switch (map) {
    case FeatureMap::kRelu:
      return "Relu";
    case FeatureMap::kLeakyRelu:
      return "LeakyRelu";
    case FeatureMap::kIdentity:
      return "Identity";
    case FeatureMap::kEluPlusOne:
      return "EluPlusOne";
    case FeatureMap::kGiven:
      return "Given";
  }
  return "?";
}

}  // namespace cosformer::testing
