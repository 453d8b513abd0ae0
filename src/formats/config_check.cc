// What makes a model possible: the fields that derive from others, the ranges, and a sentence for
// each combination that contradicts itself.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cosformer/error.h"
#include "formats/config.h"
#include "formats/config_fields.h"
#include "formats/json.h"
#include "formats/option_reader.h"

namespace cosformer {
namespace {

constexpr int64_t kDefaultNegatives = 1024;
// As JSON. What stands for all layers is copied up to 2,048 times.
constexpr size_t kMaxOptionBytes = 4096;

class Checker {
 public:
  explicit Checker(std::string where) : where_(std::move(where)) {}

  // For the fields of an object within the config.
  Checker Within(const char* part) const { return Checker(fmt::format("{}: {}", where_, part)); }

  template <class... Arguments>
  void Require(bool holds, fmt::format_string<Arguments...> format,
               Arguments&&... arguments) const {
    if (holds) return;
    throw Error(
        fmt::format("{}: {}", where_, fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  template <class Struct, class Value, size_t kCount>
  void InRange(const Struct& values, const Field<Struct, Value> (&fields)[kCount]) const {
    for (const auto& field : fields) {
      const Value value = values.*field.member;
      // Written so that NaN fails.
      Require(value >= field.least && value <= field.most,
              "\"{}\" is {}; expected a value from {} to {}", field.name, value, field.least,
              field.most);
    }
  }

 private:
  std::string where_;
};

void CheckSystem(const SystemConfig& system, const Checker& check, const std::string& what) {
  check.Require(!system.system.empty(), "{} has no name; expected one as \"cosformer\"", what);
  check.Require(system.options.is_object(), "the options of {} are {}; expected an object", what,
                DescribeJson(system.options));
  check.Require(!system.options.contains("system"),
                "the options of {} hold \"system\", which is the key of its name", what);
  const size_t bytes = JsonText(system.options).size();
  check.Require(bytes <= kMaxOptionBytes,
                "the options of {} take {} bytes; expected at most {}: shorten them", what, bytes,
                kMaxOptionBytes);
}

void CheckInput(const ModelConfig& config, const Checker& check) {
  if (config.input == InputKind::kTokens) {
    check.Require(config.vocabulary > 0,
                  "\"vocabulary\" is missing or 0; token input needs the number of tokens");
    check.Require(config.image == ImageConfig{},
                  "\"input\" is \"tokens\" but describes an image; remove height, width, channels "
                  "and patch, or choose \"pixels\" or \"patches\"");
    return;
  }
  const ImageConfig& image = config.image;
  check.Within("input").InRange(image, kImageIntegers);
  check.Require(config.vocabulary == 0,
                "\"vocabulary\" is {} but the input is an image, which has none; remove it",
                config.vocabulary);
  check.Require(config.classes > 0, "an image needs \"classes\": it has no tokens to predict");
  check.Require(config.input == InputKind::kPatches || image.patch == 1,
                "\"patch\" is {} but the input is \"pixels\", one by one; choose \"patches\"",
                image.patch);
  check.Require(image.height % image.patch == 0 && image.width % image.patch == 0,
                "patches of {} x {} do not tile an image of {} x {}; choose a divisor of both",
                image.patch, image.patch, image.height, image.width);
  check.Require(config.ImageLength() <= config.max_length,
                "the image is {} {} long but \"max_length\" is {}; raise it or make the image "
                "smaller",
                config.ImageLength(), Name(config.input), config.max_length);
}

void ResolveSizes(ModelConfig& config, const Checker& check) {
  if (config.head_dim == 0) {
    check.Require(
        config.width % config.heads == 0,
        "\"width\" {} is not a multiple of \"heads\" {}; change one, or give \"head_dim\"",
        config.width, config.heads);
    config.head_dim = config.width / config.heads;
  }
  check.Require(config.heads * config.head_dim <= kMaxHeadsTimesDim,
                "{} heads of dimension {} are wider than {}; choose fewer or smaller ones",
                config.heads, config.head_dim, kMaxHeadsTimesDim);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  check.Require(config.heads % config.kv_heads == 0,
                "\"heads\" {} is not a multiple of \"kv_heads\" {}", config.heads, config.kv_heads);
  if (config.hidden == 0) config.hidden = 4 * config.width;

  const bool two_stacks = config.kind == ModelKind::kEncoderDecoder;
  if (two_stacks && config.decoder_layers == 0) config.decoder_layers = config.layers;
  check.Require(
      two_stacks || config.decoder_layers == 0,
      "\"decoder_layers\" is {}, but a model of kind \"{}\" has only \"layers\"; remove it",
      config.decoder_layers, Name(config.kind));
}

void ResolveAttention(ModelConfig& config, const Checker& check) {
  const auto layers = static_cast<size_t>(config.AttentionLayers());
  if (config.attention.empty()) config.attention.emplace_back();
  for (size_t layer = 0; layer < config.attention.size(); ++layer) {
    CheckSystem(config.attention[layer], check, fmt::format("the attention of layer {}", layer));
  }
  if (config.attention.size() == 1) {
    const SystemConfig everywhere = config.attention.front();
    config.attention.assign(layers, everywhere);
  }
  check.Require(
      config.attention.size() == layers,
      "\"attention\" is a list of {} but the model has {} layers; give one a layer, or one "
      "for all",
      config.attention.size(), layers);
  check.Require(
      config.kind == ModelKind::kEncoderDecoder || config.cross_attention == SystemConfig{},
      "\"cross_attention\" is given, but a model of kind \"{}\" has none; remove it",
      Name(config.kind));
  CheckSystem(config.cross_attention, check, "the cross attention");
}

void CheckPositions(const ModelConfig& config, const Checker& check) {
  const PositionConfig& positions = config.positions;
  const Checker check_positions = check.Within("positions");
  check_positions.InRange(positions, kPositionIntegers);
  check_positions.InRange(positions, kPositionNumbers);
  const PositionConfig untouched;
  const std::pair<const char*, bool> changed[] = {
      {"base", positions.rotary_base != untouched.rotary_base},
      {"sines", positions.sines != untouched.sines},
      {"kernel", positions.kernel != untouched.kernel},
      {"realisations", positions.realisations != untouched.realisations},
      {"gated", positions.gated != untouched.gated},
  };
  for (const auto& [option, is_changed] : changed) {
    check_positions.Require(!is_changed || TakesOption(positions.kind, option),
                            "\"{}\" does nothing for positions of kind \"{}\"; remove it", option,
                            Name(positions.kind));
  }
  check.Require(positions.kind != PositionKind::kRotary || config.head_dim % 2 == 0,
                "\"head_dim\" is {}; rotary positions turn pairs and need an even one",
                config.head_dim);
}

void ResolveOutput(ModelConfig& config, const Checker& check) {
  check.Require(config.classes != 1, "\"classes\" is 1; a choice needs at least 2, 0 is none");
  const bool may_classify =
      config.kind == ModelKind::kEncoder || config.kind == ModelKind::kTwoTower;
  check.Require(
      config.classes == 0 || may_classify,
      "\"classes\" is {}, but a model of kind \"{}\" predicts tokens; remove it, or choose "
      "\"encoder\" or \"two-tower\"",
      config.classes, Name(config.kind));
  check.Require(config.kind != ModelKind::kTwoTower || config.classes > 0,
                "a model of kind \"two-tower\" needs \"classes\", at least 2");
  check.Require(config.classes > 0 || config.pool == Pool::kMean,
                "\"pool\" is \"{}\" but there are no \"classes\" to pool for; remove it",
                Name(config.pool));
  if (config.classes > 0) config.tied_embeddings = false;
}

void ResolveLoss(ModelConfig& config, const Checker& check) {
  if (config.loss == LossKind::kCrossEntropy) {
    check.Require(
        config.negatives == 0,
        "\"negatives\" is {} but the loss is \"cross-entropy\", which samples none; remove "
        "it, or choose \"one-vs-each\"",
        config.negatives);
    return;
  }
  check.Require(config.classes == 0,
                "\"loss\" is \"one-vs-each\", which samples tokens, but the model predicts {} "
                "classes; choose \"cross-entropy\"",
                config.classes);
  check.Require(config.vocabulary > 1,
                "\"vocabulary\" is {}; \"one-vs-each\" needs another token to compare with",
                config.vocabulary);
  if (config.negatives == 0) {
    config.negatives = std::min(kDefaultNegatives, config.vocabulary - 1);
  }
  check.Require(config.negatives < config.vocabulary,
                "\"negatives\" is {} but \"vocabulary\" is {}; at most the other tokens can be "
                "sampled",
                config.negatives, config.vocabulary);
}

}  // namespace

bool TakesOption(PositionKind kind, std::string_view option) {
  switch (kind) {
    case PositionKind::kRotary:
      return option == "base";
    case PositionKind::kSpeSine:
      return option == "sines" || option == "realisations" || option == "gated";
    case PositionKind::kSpeConv:
      return option == "kernel" || option == "realisations" || option == "gated";
    default:
      return false;
  }
}

int64_t ModelConfig::ImageLength() const {
  if (input == InputKind::kTokens) return 0;
  return (image.height / image.patch) * (image.width / image.patch);
}

void Validate(ModelConfig& config, const std::string& where) {
  const Checker check(where);
  check.InRange(config, kModelIntegers);
  check.InRange(config, kModelNumbers);
  check.Require(config.dropout < 1, "\"dropout\" is 1, which leaves nothing; expected less");
  ModelConfig resolved = config;
  ResolveOutput(resolved, check);
  CheckInput(resolved, check);
  ResolveSizes(resolved, check);
  ResolveAttention(resolved, check);
  CheckPositions(resolved, check);
  ResolveLoss(resolved, check);
  config = std::move(resolved);
}

}  // namespace cosformer
