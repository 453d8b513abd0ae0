// The public face of a model: its directory, its tokenizer, whole texts in and predictions out.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "cosformer/runtime.h"
#include "formats/model_directory.h"
#include "formats/model_weights.h"
#include "formats/task_card.h"
#include "formats/text_pair.h"
#include "formats/tokenizer.h"
#include "formats/utf8.h"
#include "runtime/log_softmax.h"
#include "runtime/model_builder.h"
#include "runtime/network.h"

namespace cosformer::runtime {
namespace {

namespace fs = std::filesystem;

// The likeliest first, at most `count`.
std::vector<Prediction> PredictionsOf(std::span<const float> logits, int64_t count) {
  std::vector<Prediction> predictions;
  for (const ScoredToken& scored : Likeliest(logits, LogSum(logits), count)) {
    predictions.push_back({scored.token, scored.log_probability});
  }
  return predictions;
}

const Tokenizer& Required(const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (tokenizer == nullptr) {
    throw Error("the model's directory has no tokenizer: it reads tokens or images, not text");
  }
  return *tokenizer;
}

// What is no UTF-8 is no text, but where tokens are bytes.
void CheckReadable(const Tokenizer& tokenizer, std::string_view text) {
  if (tokenizer.kind() != TokenizerKind::kBytes) CheckUtf8(text, "the text");
}

std::vector<int32_t> Encoded(const Tokenizer& tokenizer, std::string_view text) {
  CheckReadable(tokenizer, text);
  return tokenizer.Encode(text);
}

void CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& config, const fs::path& where) {
  if (tokenizer.size() == config.vocabulary) return;
  throw Error(fmt::format(
      "{}: its tokenizer has {} tokens, its config a vocabulary of {}: they belong to different "
      "models",
      where.string(), tokenizer.size(), config.vocabulary));
}

void CheckSomething(std::span<const int32_t> tokens) {
  if (tokens.empty()) throw Error("the text is empty: there is nothing to classify");
}

// As the data of classifiers are made: a token that begins, the texts with a separator between
// them, each cut where it is too long, the longer one first.
std::vector<int32_t> ClassifierInput(const Model& model, const Tokenizer& tokenizer,
                                     std::initializer_list<std::string_view> texts) {
  if (model.reads_images()) throw Error("this model reads images, not text");
  const SpecialTokens& special = tokenizer.special();
  std::vector<std::vector<int32_t>> parts;
  for (const std::string_view text : texts) {
    parts.push_back(Encoded(tokenizer, text));
    CheckSomething(parts.back());
  }
  if (parts.size() > 1 && special.separator < 0) {
    throw Error("the model's tokenizer has no token that separates two texts");
  }
  const int64_t taken = (special.begin >= 0 ? 1 : 0) + static_cast<int64_t>(parts.size()) - 1;
  parts.resize(2);
  const auto [first, second] =
      CutPair(static_cast<int64_t>(parts[0].size()), static_cast<int64_t>(parts[1].size()),
              std::max<int64_t>(0, model.network().config().max_length - taken));
  parts[0].resize(static_cast<size_t>(first));
  parts[1].resize(static_cast<size_t>(second));
  std::vector<int32_t> tokens;
  if (special.begin >= 0) tokens.push_back(special.begin);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) tokens.push_back(special.separator);
    tokens.insert(tokens.end(), parts[i].begin(), parts[i].end());
  }
  return tokens;
}

}  // namespace

Model ModelBuilder::Build(ModelConfig config, Parameters parameters,
                          std::shared_ptr<const Tokenizer> tokenizer,
                          std::vector<std::string> labels, const LoadOptions& options) {
  Model model;
  model.network_ = std::make_shared<Network>(std::move(config), std::move(parameters),
                                             options.endless, options.threads);
  model.tokenizer_ = std::move(tokenizer);
  model.labels_ = std::make_shared<std::vector<std::string>>(std::move(labels));
  return model;
}

Model Model::Load(const std::string& given, const LoadOptions& options) {
  const fs::path directory = ModelDirectory(given);
  ModelConfig config = ReadConfig((directory / kConfigFile).string());
  std::shared_ptr<const Tokenizer> tokenizer;
  if (Tokenizer::IsIn(directory.string())) {
    tokenizer = std::make_shared<Tokenizer>(Tokenizer::Load(directory.string()));
    if (config.input == InputKind::kTokens) CheckTokenizer(*tokenizer, config, directory);
  }
  TaskCard card;
  const bool has_card = fs::exists(directory / kTaskFile);
  if (has_card) card = ReadTaskCard(directory.string());
  if (tokenizer != nullptr) CheckTrainedWith(card, tokenizer->Fingerprint(), directory.string());
  const std::vector<std::string>& labels = card.labels;
  if (!labels.empty() && static_cast<int64_t>(labels.size()) != config.classes) {
    throw Error(fmt::format("{}: its task.json names {} classes, its config has {}",
                            directory.string(), labels.size(), config.classes));
  }
  // What the runtime does not execute is refused before the weights are read.
  Network::CheckSupported(config);
  const ModelWeights weights = OpenModelWeights(directory.string());
  Parameters parameters = ReadParameters(config, weights.file, weights.path,
                                         weights.checksums ? &*weights.checksums : nullptr);
  Model model = ModelBuilder::Build(std::move(config), std::move(parameters), std::move(tokenizer),
                                    labels, options);
  if (has_card) model.pairs_ = card.pairs;
  model.images_ = card.images();
  return model;
}

Use Model::use() const {
  const ModelConfig& config = network_->config();
  switch (config.kind) {
    case cosformer::ModelKind::kDecoder:
      return Use::kLanguageModel;
    case cosformer::ModelKind::kTwoTower:
      return Use::kRetrieval;
    default:
      return config.classes > 0 ? Use::kClassifier : Use::kMaskedModel;
  }
}

bool Model::reads_images() const {
  return images_ || network_->config().input != InputKind::kTokens;
}
int64_t Model::vocabulary() const { return network_->config().vocabulary; }
int64_t Model::parameters() const { return network_->parameters().count; }
int64_t Model::weight_bytes() const { return network_->parameters().bytes; }
std::optional<int64_t> Model::max_tokens() const { return network_->Limit(); }
const std::vector<std::string>& Model::labels() const { return *labels_; }

std::vector<int32_t> Model::Encode(std::string_view text) const {
  return Encoded(Required(tokenizer_), text);
}

std::string Model::Decode(std::span<const int32_t> tokens) const {
  return Required(tokenizer_).Decode(tokens);
}

int32_t Model::end_token() const {
  // Words end their lines with it, and a text goes on after a line.
  if (tokenizer_ == nullptr || tokenizer_->kind() == TokenizerKind::kWords) return -1;
  return tokenizer_->special().end;
}

std::vector<Prediction> Model::Classify(std::span<const int32_t> tokens) const {
  CheckSomething(tokens);
  const std::vector<float> scores = network_->Classify(network_->Encode(tokens));
  return PredictionsOf(scores, std::ssize(scores));
}

std::vector<Prediction> Model::Classify(std::string_view text) const {
  if (pairs_.value_or(false)) throw Error("this model was trained on two texts: give both");
  return Classify(ClassifierInput(*this, Required(tokenizer_), {text}));
}

std::vector<Prediction> Model::Classify(std::string_view first, std::string_view second) const {
  if (use() == Use::kClassifier) {
    if (!pairs_.value_or(true)) throw Error("this model was trained on single texts: give one");
    return Classify(ClassifierInput(*this, Required(tokenizer_), {first, second}));
  }
  const auto encoded = [&](std::string_view text) {
    std::vector<int32_t> tokens = Encode(text);
    CheckSomething(tokens);
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(network_->config().max_length)));
    return network_->Encode(tokens);
  };
  const std::vector<float> scores = network_->Classify(encoded(first), encoded(second));
  return PredictionsOf(scores, std::ssize(scores));
}

std::vector<Prediction> Model::ClassifyImage(std::span<const uint8_t> pixels) const {
  if (network_->config().input == InputKind::kTokens) {
    if (use() == Use::kClassifier && tokenizer_ != nullptr && !images_) {
      throw Error("this model reads text, not images");
    }
    return Classify(std::vector<int32_t>(pixels.begin(), pixels.end()));
  }
  const std::vector<float> scores = network_->Classify(network_->EncodePixels(pixels));
  return PredictionsOf(scores, std::ssize(scores));
}

std::vector<int32_t> Model::EncodeMasked(std::string_view text) const {
  constexpr std::string_view kMask = "<mask>";
  const int32_t mask = Required(tokenizer_).special().mask;
  if (mask < 0) throw Error("the model's tokenizer has no token for what is masked");
  CheckReadable(*tokenizer_, text);
  std::vector<int32_t> tokens;
  const bool hides_blank = tokenizer_->kind() == TokenizerKind::kSentencePiece;
  for (size_t at = text.find(kMask); at != std::string_view::npos; at = text.find(kMask)) {
    const bool blank = hides_blank && at > 0 && text[at - 1] == ' ';
    tokenizer_->Encode(text.substr(0, blank ? at - 1 : at), tokens);
    tokens.push_back(mask);
    text.remove_prefix(at + kMask.size());
  }
  tokenizer_->Encode(text, tokens);
  return tokens;
}

std::vector<std::vector<Prediction>> Model::Fill(std::string_view text, int64_t count) const {
  if (use() != Use::kMaskedModel) {
    throw Error("this model does not fill in blanks; one that was trained with --task mlm does");
  }
  const std::vector<int32_t> tokens = EncodeMasked(text);
  std::vector<size_t> places;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == tokenizer_->special().mask) places.push_back(i);
  }
  if (places.empty()) {
    throw Error("the text has no blank; write <mask> where a token is to be filled in");
  }
  const std::vector<float> hidden = network_->Encode(tokens);
  const auto width = static_cast<size_t>(network_->config().width);
  std::vector<std::vector<Prediction>> filled;
  std::vector<float> logits(static_cast<size_t>(vocabulary()));
  for (const size_t place : places) {
    network_->Logits(hidden.data() + place * width, 1, logits.data());
    filled.push_back(PredictionsOf(logits, std::max<int64_t>(count, 1)));
  }
  return filled;
}

}  // namespace cosformer::runtime
