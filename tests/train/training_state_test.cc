// A run that is saved and loaded goes on to the bit as one that never stopped; what is no
// checkpoint of this run is refused and changes nothing.
#include "train/training_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "cosformer/error.h"
#include "formats/folder.h"
#include "formats/safetensors.h"
#include "model/model_files.h"
#include "report/full_disk.h"
#include "train/objective.h"
#include "train/tiny_model.h"

namespace cosformer {
namespace {

using nlohmann::json;
using torch::Tensor;

// Copies of all that a checkpoint is to bring back.
struct Snapshot {
  Snapshot(const Model& model, const AdamW& optimiser) : steps(optimiser.steps()) {
    for (const Tensor& tensor : model->parameters()) tensors.push_back(tensor.detach().clone());
    for (const Tensor& tensor : model->buffers()) tensors.push_back(tensor.clone());
    for (const AdamW::Moments& moments : optimiser.moments()) {
      for (const Tensor& tensor : {moments.mean, moments.square}) {
        tensors.push_back(tensor.defined() ? tensor.clone() : Tensor());
      }
    }
    tensors.push_back(TorchRandomState());
  }

  bool operator==(const Snapshot& other) const {
    if (steps != other.steps || tensors.size() != other.tensors.size()) return false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor &a = tensors[i], &b = other.tensors[i];
      if (a.defined() != b.defined()) return false;
      if (a.defined() &&
          (a.nbytes() != b.nbytes() || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) != 0)) {
        return false;
      }
    }
    return true;
  }

  int64_t steps;
  std::vector<Tensor> tensors;
};

// A model and its optimiser, as a run has them.
struct Session {
  explicit Session(const json& config, uint64_t seed = 1)
      : model(testing::TinyModel(config, seed)), optimiser(GroupsOf(*model), {.lr = 1e-2}) {}

  // The texts come from torch's random numbers too, as dropout does.
  void Advance(int steps) {
    model->train();
    for (int step = 0; step < steps; ++step) {
      const int64_t vocabulary = model->config().vocabulary;
      const Tensor tokens = torch::randint(vocabulary, {2, 13}, torch::kInt64);
      const Tensor hidden = model->Encode(tokens.narrow(1, 0, 12).contiguous());
      model->Loss(hidden, tokens.narrow(1, 1, 12).contiguous()).loss.backward();
      optimiser.ClipGradients(1);
      optimiser.Step();
      optimiser.ZeroGradients();
    }
  }

  Snapshot Now() const { return {model, optimiser}; }

  Model model;
  AdamW optimiser;
};

// One small enough to try every place of its file.
json Smallest() {
  return {{"vocabulary", 5}, {"width", 4},       {"layers", 1},        {"heads", 1},
          {"hidden", 4},     {"max_length", 16}, {"positions", "none"}};
}

TrainingState SomeState() {
  TrainingState state;
  state.step = 3;
  state.steps = 1000;
  state.place = {.epoch = 2, .batch = 17};
  state.tokens = int64_t{1} << 40;
  state.seconds = 0.1 + 0.2;
  state.best = 1.0 / 3;
  state.best_step = 2;
  state.stale = 1;
  state.data = "0123abcd";
  return state;
}

class TrainingStateTest : public testing::FolderTest {
 protected:
  void Save(const Session& session, const TrainingState& state = SomeState()) const {
    SaveTrainingState(Path("checkpoint"), session.model, session.optimiser, state);
  }
  TrainingState Load(Session& session, const std::string& data = "0123abcd") const {
    return LoadTrainingState(Path("checkpoint"), session.model, session.optimiser, data);
  }

  // Refused with these words, and nothing is changed.
  void ExpectRefused(Session& session, const std::vector<std::string>& words,
                     const std::string& data = "0123abcd") const {
    const Snapshot before = session.Now();
    try {
      Load(session, data);
      ADD_FAILURE() << "loaded, but should have said " << words.front();
    } catch (const Error& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      }
    }
    EXPECT_TRUE(session.Now() == before) << words.front();
  }

  // The checkpoint with other metadata around the same tensors.
  void Rewrite(
      const std::function<void(std::map<std::string, std::string>& metadata)>& change) const {
    const SafetensorsFile file = SafetensorsFile::Open(Path("checkpoint"));
    std::map<std::string, std::string> metadata = file.metadata();
    change(metadata);
    WriteSafetensors(Path("checkpoint"), file.tensors(), metadata);
  }
};

TEST_F(TrainingStateTest, ARunThatWasStoppedGoesOnToTheBit) {
  for (const json& attention : std::vector<json>{
           "cosformer",
           "softmax",
           {{"system", "performer"}, {"redraw", 4}},  // draws anew in the steps that follow
           "reformer",
           "rfa-gate-gaussian"}) {
    const json config = {{"attention", attention}, {"dropout", 0.2}, {"layers", 1}};
    Session first(config);
    first.Advance(3);
    Save(first);
    first.Advance(3);
    const Snapshot expected = first.Now();

    Session fresh(config, 2), used(config, 3);
    used.Advance(1);
    for (Session* other : {&fresh, &used}) {
      torch::manual_seed(77);
      Load(*other);
      EXPECT_EQ(other->optimiser.steps(), 3);
      other->Advance(3);
      EXPECT_TRUE(other->Now() == expected) << attention;
    }
  }
}

TEST_F(TrainingStateTest, LoadingBringsBackWhatWasSaved) {
  Session saved(Smallest());
  saved.Advance(2);
  const Snapshot expected = saved.Now();
  Save(saved);
  EXPECT_TRUE(saved.Now() == expected) << "saving changes nothing";
  Session other(Smallest(), 2);
  Load(other);
  EXPECT_TRUE(other.Now() == expected);
}

TEST_F(TrainingStateTest, WhatThereIsOfARunComesBack) {
  Session session(Smallest());
  for (const bool has_best : {true, false}) {
    TrainingState state = SomeState();
    if (!has_best) state.best.reset();
    Save(session, state);
    const TrainingState loaded = Load(session);
    EXPECT_EQ(loaded.step, state.step);
    EXPECT_EQ(loaded.steps, state.steps);
    EXPECT_EQ(loaded.place, state.place);
    EXPECT_EQ(loaded.tokens, state.tokens);
    EXPECT_EQ(loaded.seconds, state.seconds);
    EXPECT_EQ(loaded.best, state.best);
    EXPECT_EQ(loaded.best_step, state.best_step);
    EXPECT_EQ(loaded.stale, state.stale);
    EXPECT_EQ(loaded.data, state.data);
  }
}

// Saved before the first step, when the optimiser remembers nothing yet.
TEST_F(TrainingStateTest, ARunMayBeSavedBeforeItsFirstStep) {
  Session first(Smallest());
  Save(first);
  first.Advance(2);
  const Snapshot expected = first.Now();
  Session other(Smallest(), 2);
  other.Advance(1);
  Load(other);
  EXPECT_EQ(other.optimiser.steps(), 0);
  other.Advance(2);
  EXPECT_TRUE(other.Now() == expected);
}

TEST_F(TrainingStateTest, ACheckpointOfSomethingElseIsRefused) {
  Session session(Smallest());
  session.Advance(1);
  ExpectRefused(session, {Path("checkpoint")});  // there is none

  json wider = Smallest();
  wider["width"] = 8;
  Save(Session(wider));
  ExpectRefused(session, {"of another model", "width is 8 there and 4 here"});
  json other = Smallest();  // of the same tensors
  other["activation"] = "relu";
  Save(Session(other));
  ExpectRefused(session, {"of another model", "activation"});

  Save(session);
  ExpectRefused(session, {"other data", "--from"}, "4567abcd");
  SaveWeights(*session.model, Path("checkpoint"));
  ExpectRefused(session, {"is no checkpoint"});
  Write("checkpoint", "not tensors");
  ExpectRefused(session, {Path("checkpoint")});
}

TEST_F(TrainingStateTest, AFileThatClaimsOtherThingsIsRefused) {
  Session session(Smallest());
  session.Advance(1);
  const auto claim = [&](const char* key, const std::string& from, const std::string& to) {
    Save(session);
    Rewrite([&](auto& metadata) {
      std::string& text = metadata[key];
      const size_t place = text.find(from);
      ASSERT_NE(place, std::string::npos) << text;
      text.replace(place, from.size(), to);
    });
  };
  claim("training", "\"format\":1", "\"format\":2");
  ExpectRefused(session, {"is of format 2", "update cosformer"});
  claim("training", "\"step\":3", "\"step\":4");
  ExpectRefused(session, {"is damaged"});
  claim("config", "gelu", "relu");
  ExpectRefused(session, {"is damaged"});
  claim("training", "{", "");
  ExpectRefused(session, {"the state in"});
  for (const char* key : {"training", "config", "checksum"}) {
    Save(session);
    Rewrite([&](auto& metadata) { metadata.erase(key); });
    ExpectRefused(session, {"is no checkpoint"});
  }
}

TEST_F(TrainingStateTest, AFileThatWasCutShortIsRefused) {
  Session session(Smallest());
  session.Advance(1);
  Save(session);
  const std::string whole = Read(Path("checkpoint"));
  for (size_t size = 0; size < whole.size(); size += 61) {
    Write("checkpoint", whole.substr(0, size));
    ExpectRefused(session, {Path("checkpoint")});
  }
  Write("checkpoint", whole.substr(0, whole.size() - 1));
  ExpectRefused(session, {Path("checkpoint")});
  Write("checkpoint", whole + "x");
  ExpectRefused(session, {Path("checkpoint")});
}

// Only what the format wants, and no one reads, may differ.
TEST_F(TrainingStateTest, ADamagedFileIsRefusedOrTheSame) {
  Session saved(Smallest());
  saved.Advance(1);
  const Snapshot expected = saved.Now();
  Save(saved);
  std::string bytes = Read(Path("checkpoint"));
  Session session(Smallest(), 2);
  session.Advance(2);
  const Snapshot before = session.Now();
  Random random(1);
  int refused = 0, loaded = 0;
  for (size_t place = random.Below(9); place < bytes.size(); place += 1 + random.Below(9)) {
    const char right = bytes[place];
    bytes[place] = static_cast<char>(right ^ (1 << random.Below(8)));
    Write("checkpoint", bytes);
    bytes[place] = right;
    bool done = false;
    try {
      Load(session);
      done = true;
    } catch (const Error&) {
    }
    ++(done ? loaded : refused);
    ASSERT_TRUE(session.Now() == (done ? expected : before)) << place;
    if (done) {
      session = Session(Smallest(), 2);
      session.Advance(2);
      ASSERT_TRUE(session.Now() == before);
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(loaded, 10);
}

TEST_F(TrainingStateTest, AFullDiskCostsNoCheckpoint) {
  Session session(Smallest());
  Save(session);
  const std::string before = Read(Path("checkpoint"));
  session.Advance(1);
  for (const size_t room : {size_t{0}, size_t{100}, before.size() - 1}) {
    std::string sentence;
    try {
      const testing::FullDisk disk(room);
      Save(session);
    } catch (const Error& error) {
      sentence = error.what();
    }
    EXPECT_NE(sentence.find(Path("checkpoint")), std::string::npos) << sentence;
    EXPECT_EQ(Read(Path("checkpoint")), before);
    EXPECT_EQ(FilesInFolder(), 1);
  }
}

TEST_F(TrainingStateTest, RandomNumbersGoOnFromWhereTheyWere) {
  torch::manual_seed(1);
  torch::randn({7});  // an odd number: the generator keeps half of a pair of normal ones
  const Tensor state = TorchRandomState();
  const Tensor expected = torch::randn({5});
  EXPECT_FALSE(torch::randn({5}).equal(expected));
  SetTorchRandomState(state);
  EXPECT_TRUE(torch::randn({5}).equal(expected));
}

}  // namespace
}  // namespace cosformer
