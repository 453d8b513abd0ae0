// The seam at which attention systems are added: what a system is given, what it declares, what it
// computes. A system is one file here that defines a System and one function that returns its Entry
// or entries; systems.cc lists them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cosformer/torch.h"
#include "formats/option_reader.h"

namespace cosformer::zoo {

struct Geometry {
  Direction direction = Direction::kCausal;
  int64_t width = 0;  // of the model
  int64_t heads = 0;  // of queries; a multiple of kv_heads
  int64_t kv_heads = 0;
  int64_t dim = 0;        // of a head's queries and keys
  int64_t value_dim = 0;  // of a head's values
  int64_t max_length = 0;

  bool causal() const { return direction == Direction::kCausal; }
};

// Rotation of queries and keys by their positions, for the systems that apply it themselves.
struct Rotary {
  double base = 10000;
};

struct Inputs {
  torch::Tensor q;  // [batch, n, heads, dim]; undefined where the system takes no queries
  torch::Tensor k;  // [batch, m, kv_heads, dim]; likewise
  torch::Tensor v;  // [batch, m, kv_heads, value_dim]
  torch::Tensor x;  // [batch, n, width]: what the queries were projected from
  Layout layout;
  const Rotary* rotary = nullptr;  // only for a system whose Entry says RotaryUse::kInside
  int64_t position = 0;            // of the first query: not 0 in a stream
  int64_t key_position = 0;        // of the first key: as position, but 0 in cross attention
};

// What a system remembers of a stream, and the step that uses it.
class Stream : public AttentionStream {
 public:
  int64_t batch = 0;  // what it was made for
  // The next tokens; inputs.position is position().
  virtual torch::Tensor Step(const Inputs& inputs) = 0;
};

enum class Projections : uint8_t {
  kQueryKeyValue,
  kSharedQueryKey,  // keys are the queries: inputs.k is undefined
  kValue,           // neither: inputs.q and inputs.k are undefined
};

// What a system draws at random while training comes from torch's generator, and what it keeps of
// it is a buffer: then a layer that is computed again (model/checkpoint.h) draws the same.
class System : public torch::nn::Module {
 public:
  // -> [batch, n, heads, value_dim]. Rows that are padding may hold anything finite; what the
  // caller does with them is masked.
  virtual torch::Tensor Forward(const Inputs& inputs) = 0;
  virtual std::unique_ptr<Stream> NewStream(int64_t batch);
  virtual Projections projections() const { return Projections::kQueryKeyValue; }
};

// Where rotary positions act: before the system, on q and k as they come (anything whose scores are
// q . k at the tokens' own positions); inside it, on the features; or nowhere, with the reason.
enum class RotaryUse : uint8_t { kBefore, kInside, kNone };

struct Entry {
  std::string name;
  std::string summary;
  Abilities abilities;
  RotaryUse rotary = RotaryUse::kNone;
  // Stochastic positional encoding replaces q and k by products with random codes, whose number is
  // then `dim`: for kernels of q . k that decompose.
  bool stochastic_positions = false;
  // Why not, where rotary is kNone or stochastic_positions is false: "its keys are mixed along the
  // length", to follow "because".
  std::string no_rotary_reason = {};
  std::function<std::shared_ptr<System>(const Geometry&, OptionReader&)> make;
};

const std::vector<Entry>& Entries();
// Throws for an unknown name, with the known ones and the nearest.
const Entry& FindEntry(const std::string& name);
// Throws when the entry cannot do what is asked, naming the systems that can. `what` completes
// "does not do ...".
void CheckAble(const Entry& entry, bool Abilities::*ability, const char* what);
void CheckAble(const Entry& entry, Direction direction);

// One a file; each appends its entries.
void AddSoftmax(std::vector<Entry>& entries);
void AddFeatureAttention(std::vector<Entry>& entries);
void AddPerformer(std::vector<Entry>& entries);
void AddRandomFeatures(std::vector<Entry>& entries);
void AddSparse(std::vector<Entry>& entries);
void AddReformer(std::vector<Entry>& entries);
void AddLinformer(std::vector<Entry>& entries);
void AddBigBird(std::vector<Entry>& entries);
void AddLongformer(std::vector<Entry>& entries);
void AddLocal(std::vector<Entry>& entries);
void AddSynthesizer(std::vector<Entry>& entries);
void AddSinkhorn(std::vector<Entry>& entries);

}  // namespace cosformer::zoo
