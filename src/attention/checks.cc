#include "attention/checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cosformer {
namespace {

const char* NameOf(DType dtype) { return dtype == DType::kFloat32 ? "float32" : "bfloat16"; }

void CheckEqual(const char* what, const char* a_name, int64_t a, const char* b_name, int64_t b) {
  if (a != b) {
    Fail("attention: ", a_name, " has ", what, " ", a, ", but ", b_name, " has ", what, " ", b,
         "; they must be equal");
  }
}

void CheckShape(const char* name, const ConstView& view, const char* like_name,
                const ConstView& like) {
  CheckView(name, view);
  if (view.batch != like.batch || view.length != like.length || view.heads != like.heads ||
      view.dim != like.dim) {
    Fail("attention: ", name, " has the shape ", ShapeOf(view), ", but ", like_name, " has ",
         ShapeOf(like), "; they must be equal");
  }
}

// Begins and ends of the sequences along one side.
struct Side {
  std::vector<int64_t> begin;
  std::vector<int64_t> count;
};

Side SideOf(const char* name, std::span<const int64_t> lengths, std::span<const int64_t> offsets,
            int64_t batch, int64_t length) {
  Side side;
  if (!lengths.empty()) {
    if (static_cast<int64_t>(lengths.size()) != batch) {
      Fail("attention: ", name, "_lengths has ", lengths.size(), " entries for a batch of ", batch);
    }
    for (size_t b = 0; b < lengths.size(); ++b) {
      if (lengths[b] < 0 || lengths[b] > length) {
        Fail("attention: ", name, "_lengths[", b, "] is ", lengths[b],
             ", which is not between 0 and the length ", length);
      }
      side.begin.push_back(0);
      side.count.push_back(lengths[b]);
    }
  } else if (!offsets.empty()) {
    if (batch != 1) {
      Fail("attention: packed sequences (", name, "_offsets) need a batch of 1, not ", batch);
    }
    for (size_t s = 0; s < offsets.size(); ++s) {
      if (offsets[s] < 0 || offsets[s] > length) {
        Fail("attention: ", name, "_offsets[", s, "] is ", offsets[s],
             ", which is not between 0 and the length ", length);
      }
      if (s > 0 && offsets[s] < offsets[s - 1]) {
        Fail("attention: ", name, "_offsets runs backwards: entry ", s, " is ", offsets[s],
             ", after ", offsets[s - 1]);
      }
      if (s > 0) {
        side.begin.push_back(offsets[s - 1]);
        side.count.push_back(offsets[s] - offsets[s - 1]);
      }
    }
  } else {
    side.begin.assign(static_cast<size_t>(batch), 0);
    side.count.assign(static_cast<size_t>(batch), length);
  }
  return side;
}

// Calls zero(batch, begin, end) for the rows of each entry outside [first, last) of its sequences.
template <class Zero>
void ForPadding(int64_t batch, int64_t length, const std::vector<Span>& spans, int64_t Span::*begin,
                int64_t Span::*count, const Zero& zero) {
  for (int64_t b = 0; b < batch; ++b) {
    int64_t first = length;
    int64_t last = 0;
    for (const Span& span : spans) {
      if (span.batch != b) continue;
      first = std::min(first, span.*begin);
      last = std::max(last, span.*begin + span.*count);
    }
    zero(b, 0, std::min(first, length));
    zero(b, std::max(first, last), length);
  }
}

void ZeroPadding(const View& view, const std::vector<Span>& spans, int64_t Span::*begin,
                 int64_t Span::*count) {
  const size_t bytes = static_cast<size_t>(view.dim) * (view.dtype == DType::kFloat32 ? 4 : 2);
  ForPadding(view.batch, view.length, spans, begin, count,
             [&](int64_t b, int64_t from, int64_t to) {
               for (int64_t i = from; i < to; ++i) {
                 for (int64_t h = 0; h < view.heads; ++h) {
                   std::memset(RowAt(view, b, i, h), 0, bytes);
                 }
               }
             });
}

}  // namespace

std::string ShapeOf(const BasicView<const void>& view) {
  std::ostringstream out;
  out << "[" << view.batch << ", " << view.length << ", " << view.heads << ", " << view.dim << "]";
  return out.str();
}

void CheckView(const char* name, const ConstView& view) {
  if (view.batch < 0 || view.length < 0 || view.heads < 1 || view.dim < 1) {
    Fail("attention: ", name, " has the shape ", ShapeOf(view),
         "; batch and length must be at least 0, heads and dim at least 1");
  }
  if (view.dtype != DType::kFloat32 && view.dtype != DType::kBFloat16) {
    Fail("attention: ", name, " has an unknown dtype (", static_cast<int>(view.dtype), ")");
  }
  if (view.data == nullptr && view.batch * view.length > 0) {
    Fail("attention: ", name, " is a null view of shape ", ShapeOf(view));
  }
}

void CheckThreads(int threads) {
  constexpr int kMost = 1024;  // beyond what any machine has, OpenMP ends the program
  if (threads < 0 || threads > kMost) {
    Fail("attention: threads is ", threads, "; it must be from 0 (all) to ", kMost);
  }
}

void CheckScale(float scale) {
  if (!std::isfinite(scale)) Fail("attention: scale is ", scale, "; it must be a finite number");
}

void CheckSums(const char* name, size_t size, bool may_be_empty, const ConstView& q) {
  const int64_t expected = q.batch * q.length * q.heads;
  if (may_be_empty && size == 0) return;
  if (static_cast<int64_t>(size) != expected) {
    Fail("attention: ", name, " has ", size, " entries, but q has the shape ", ShapeOf(q),
         ": it must have batch * length * heads = ", expected);
  }
}

void CheckAttention(const ConstView& q, const ConstView& k, const ConstView& v,
                    const ConstView& o) {
  CheckView("q", q);
  CheckView("k", k);
  CheckView("v", v);
  CheckView("o", o);
  CheckEqual("batch", "q", q.batch, "k", k.batch);
  CheckEqual("batch", "k", k.batch, "v", v.batch);
  CheckEqual("batch", "q", q.batch, "o", o.batch);
  CheckEqual("length", "k", k.length, "v", v.length);
  CheckEqual("length", "q", q.length, "o", o.length);
  CheckEqual("heads", "k", k.heads, "v", v.heads);
  CheckEqual("heads", "q", q.heads, "o", o.heads);
  CheckEqual("dim", "q", q.dim, "k", k.dim);
  CheckEqual("dim", "v", v.dim, "o", o.dim);
  if (q.heads % k.heads != 0) {
    Fail("attention: q has ", q.heads, " heads, which is not a multiple of the ", k.heads,
         " key/value heads");
  }
  if (q.dtype != k.dtype || q.dtype != v.dtype) {
    Fail("attention: q, k and v must have one dtype, but they have ", NameOf(q.dtype), ", ",
         NameOf(k.dtype), " and ", NameOf(v.dtype));
  }
}

void CheckGradients(const ConstView& q, const ConstView& k, const ConstView& v, const ConstView& o,
                    const ConstView& d_o, const ConstView& dq, const ConstView& dk,
                    const ConstView& dv) {
  CheckAttention(q, k, v, o);
  CheckShape("d_o", d_o, "o", o);
  CheckShape("dq", dq, "q", q);
  CheckShape("dk", dk, "k", k);
  CheckShape("dv", dv, "v", v);
}

std::vector<Span> CheckSequences(const Sequences& sequences, const ConstView& q, const ConstView& k,
                                 bool causal) {
  const bool lengths = !sequences.query_lengths.empty() || !sequences.key_lengths.empty();
  const bool offsets = !sequences.query_offsets.empty() || !sequences.key_offsets.empty();
  if (lengths && offsets) {
    Fail("attention: sequences are given both by lengths and by offsets; give one of them");
  }
  const bool share =
      (sequences.key_lengths.empty() && sequences.key_offsets.empty()) && (lengths || offsets);
  if (share && q.length != k.length) {
    Fail("attention: only the query side's sequences are given, but q has length ", q.length,
         " and k has length ", k.length, "; give the keys' as well");
  }
  const Side queries =
      SideOf("query", sequences.query_lengths, sequences.query_offsets, q.batch, q.length);
  const Side keys =
      share ? queries
            : SideOf("key", sequences.key_lengths, sequences.key_offsets, k.batch, k.length);
  if (queries.begin.size() != keys.begin.size()) {
    Fail("attention: there are ", queries.begin.size(), " sequences of queries, but ",
         keys.begin.size(), " of keys");
  }
  std::vector<Span> spans;
  for (size_t s = 0; s < queries.begin.size(); ++s) {
    const int64_t batch = offsets ? 0 : static_cast<int64_t>(s);
    spans.push_back({batch, queries.begin[s], queries.count[s], keys.begin[s], keys.count[s]});
    if (causal && queries.count[s] > keys.count[s]) {
      Fail("attention: causal attention of sequence ", s, " has ", queries.count[s],
           " queries but only ", keys.count[s], " keys; every query needs the key at its position");
    }
  }
  return spans;
}

void CheckKernel(const LinearKernel& kernel) {
  if (kernel.feature_map > FeatureMap::kGiven) {
    Fail("attention: unknown feature map (", static_cast<int>(kernel.feature_map), ")");
  }
  if (kernel.reweighting > Reweighting::kNone) {
    Fail("attention: unknown re-weighting (", static_cast<int>(kernel.reweighting), ")");
  }
  if (kernel.normaliser > Normaliser::kNone) {
    Fail("attention: unknown normaliser (", static_cast<int>(kernel.normaliser), ")");
  }
  if (!std::isfinite(kernel.epsilon) || kernel.epsilon <= 0) {
    Fail("attention: epsilon is ", kernel.epsilon, "; it must be a positive number");
  }
  if (!std::isfinite(kernel.leaky_slope)) {
    Fail("attention: leaky_slope is ", kernel.leaky_slope, "; it must be a finite number");
  }
  if (kernel.reweighting == Reweighting::kCos && kernel.horizon < 1) {
    Fail("attention: horizon is ", kernel.horizon,
         "; cos re-weighting needs one of at least the longest sequence");
  }
}

void CheckHorizon(const LinearKernel& kernel, const std::vector<Span>& spans) {
  if (kernel.reweighting == Reweighting::kNone) return;
  for (const Span& span : spans) {
    const int64_t longest = std::max(span.query_count, span.key_count);
    if (longest > kernel.horizon) {
      Fail("attention: a sequence of length ", longest, " is longer than the horizon ",
           kernel.horizon, "; raise the horizon, or stream it with an endless LinearState");
    }
  }
}

void CheckKeep(size_t size, const ConstView& k, bool causal) {
  if (size == 0) return;
  if (!causal) {
    Fail(
        "attention: what tokens keep of those before is for causal attention; in this call every "
        "query attends to every key");
  }
  if (static_cast<int64_t>(size) != k.batch * k.length * k.heads) {
    Fail("attention: keep has ", size, " numbers; for k of ", ShapeOf(k), " it needs ",
         k.batch * k.length * k.heads, ", one a key and head");
  }
}

void CheckSameConfig(const LinearStateConfig& expected, const LinearStateConfig& given,
                     const char* given_name) {
  const auto check = [given_name](const char* field, auto want, auto have) {
    if (want != have) {
      Fail("state: ", given_name, " has ", field, " ", +have, ", but ", +want, " is expected");
    }
  };
  check("batch", expected.batch, given.batch);
  check("heads", expected.heads, given.heads);
  check("dim", expected.dim, given.dim);
  check("value_dim", expected.value_dim, given.value_dim);
  check("feature_map", static_cast<int>(expected.kernel.feature_map),
        static_cast<int>(given.kernel.feature_map));
  check("leaky_slope", expected.kernel.leaky_slope, given.kernel.leaky_slope);
  check("reweighting", static_cast<int>(expected.kernel.reweighting),
        static_cast<int>(given.kernel.reweighting));
  check("horizon", expected.kernel.horizon, given.kernel.horizon);
  check("normaliser", static_cast<int>(expected.kernel.normaliser),
        static_cast<int>(given.kernel.normaliser));
  check("epsilon", expected.kernel.epsilon, given.kernel.epsilon);
  if (expected.endless != given.endless) {
    Fail("state: ", given_name,
         given.endless ? " is endless, but one that ends with its horizon is expected"
                       : " ends with its horizon, but an endless one is expected",
         ": it is one or the other from its beginning (endless, --no-endless)");
  }
  if (expected.forgets != given.forgets) {
    Fail("state: ", given_name,
         given.forgets ? " forgets, but one that does not is expected"
                       : " does not forget, but one that does is expected");
  }
}

void ZeroQueryPadding(const View& view, const std::vector<Span>& spans) {
  ZeroPadding(view, spans, &Span::query_begin, &Span::query_count);
}

void ZeroKeyPadding(const View& view, const std::vector<Span>& spans) {
  ZeroPadding(view, spans, &Span::key_begin, &Span::key_count);
}

void ZeroSumsPadding(std::span<float> sums, const ConstView& q, const std::vector<Span>& spans) {
  if (sums.empty()) return;
  ForPadding(q.batch, q.length, spans, &Span::query_begin, &Span::query_count,
             [&](int64_t b, int64_t from, int64_t to) {
               std::fill(sums.begin() + (b * q.length + from) * q.heads,
                         sums.begin() + (b * q.length + std::max(from, to)) * q.heads, 0.0f);
             });
}

}  // namespace cosformer
