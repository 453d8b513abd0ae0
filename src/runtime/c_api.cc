// The C API: errors, models, and whole texts in and predictions out. Sessions are in
// c_api_session.cc, generated text in c_api_generate.cc.
#include "cosformer/cosformer.h"

#include <string>
#include <vector>

#include "runtime/c_api_support.h"
#include "runtime/network.h"

namespace cosformer::capi {
namespace {

using runtime::Model;
using runtime::Prediction;

// A sentence that outlives the call. Where there is no memory to keep it, a shorter one stands in.
class Sentence {
 public:
  const char* text() const noexcept { return shown_; }
  void Set(const char* text) noexcept {
    try {
      kept_ = text;
      shown_ = kept_.c_str();
    } catch (...) {
      shown_ = "there is not enough memory, not even to say for what";
    }
  }

 private:
  std::string kept_;
  const char* shown_ = "";
};

thread_local Sentence last_error;

constexpr size_t kFirstLoadOptions = 16, kFirstFacts = 56;
static_assert(sizeof(cosformer_load_options) >= kFirstLoadOptions);
static_assert(sizeof(cosformer_facts) >= kFirstFacts);

cosformer_load_options DefaultLoadOptions() {
  const runtime::LoadOptions options;
  return {sizeof(cosformer_load_options), options.endless, options.threads};
}

cosformer_use UseOf(const Model& model) {
  switch (model.use()) {
    case runtime::Use::kLanguageModel:
      return COSFORMER_LANGUAGE_MODEL;
    case runtime::Use::kMaskedModel:
      return COSFORMER_MASKED_MODEL;
    case runtime::Use::kClassifier:
      return COSFORMER_CLASSIFIER;
    case runtime::Use::kRetrieval:
      return COSFORMER_RETRIEVAL;
  }
  return -1;
}

std::vector<cosformer_prediction> AsC(std::span<const Prediction> predictions) {
  std::vector<cosformer_prediction> out;
  out.reserve(predictions.size());
  for (const Prediction& one : predictions) out.push_back({one.token, one.log_probability});
  return out;
}

// All classes of what `classify` reads. Their number is known before anything is computed.
template <class Classify>
cosformer_status GiveClasses(const Call& call, const Model& model, cosformer_prediction* out,
                             size_t capacity, size_t* count, const Classify& classify) {
  const auto classes = static_cast<size_t>(model.network().config().classes);
  if (capacity < classes) return call.TellSize(classes, out, capacity, count);
  const std::vector<cosformer_prediction> predictions = AsC(classify());
  return call.Give<cosformer_prediction>(predictions, out, capacity, count);
}

}  // namespace

cosformer_status Fail(cosformer_status status, const char* sentence) noexcept {
  last_error.Set(sentence);
  return status;
}

}  // namespace cosformer::capi

using cosformer::capi::Call;

const char* cosformer_version() { return COSFORMER_VERSION; }

const char* cosformer_last_error() { return cosformer::capi::last_error.text(); }

cosformer_status cosformer_load_options_init(cosformer_load_options* options, size_t size) {
  return Call(__func__).Init(options, size, cosformer::capi::DefaultLoadOptions(),
                             cosformer::capi::kFirstLoadOptions);
}

cosformer_status cosformer_model_load(const char* path, const cosformer_load_options* options,
                                      cosformer_model** model) {
  const Call call(__func__);
  return call.New(model, "model", [&] {
    call.Need(path, "path");
    const auto given = call.Options(options, cosformer::capi::DefaultLoadOptions(),
                                    cosformer::capi::kFirstLoadOptions, "options");
    return cosformer::runtime::Model::Load(path, {given.endless != 0, given.threads});
  });
}

void cosformer_model_free(cosformer_model* model) { delete model; }

cosformer_status cosformer_model_facts(const cosformer_model* model, cosformer_facts* facts,
                                       size_t size) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    call.Need(facts, "facts");
    call.CheckSize(size, cosformer::capi::kFirstFacts, sizeof(cosformer_facts), "facts");
    const cosformer::runtime::Model& from = model->model;
    cosformer_facts found = {};
    found.use = cosformer::capi::UseOf(from);
    found.has_tokenizer = from.tokenizer() != nullptr && !from.reads_images();
    found.end_token = from.end_token();
    found.vocabulary = from.vocabulary();
    found.parameters = from.parameters();
    found.weight_bytes = from.weight_bytes();
    found.max_tokens = from.max_tokens().value_or(-1);
    found.classes = from.network().config().classes;
    std::memcpy(facts, &found, size);
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_model_label(const cosformer_model* model, int64_t index,
                                       const char** label) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    call.Need(label, "label");
    const int64_t classes = model->model.network().config().classes;
    if (index < 0 || index >= classes) {
      throw cosformer::Error(
          classes == 0
              ? "cosformer_model_label: the model has no classes: it predicts tokens"
              : fmt::format("cosformer_model_label: class {} is asked for; the model has 0 to {}",
                            index, classes - 1));
    }
    const auto& labels = model->model.labels();
    *label = labels.empty() ? "" : labels[static_cast<size_t>(index)].c_str();
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_encode(const cosformer_model* model, const char* text, size_t text_size,
                                  int32_t* tokens, size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    const auto encoded = model->model.Encode(call.Text(text, text_size, "text"));
    return call.Give<int32_t>(encoded, tokens, capacity, count);
  });
}

cosformer_status cosformer_decode(const cosformer_model* model, const int32_t* tokens,
                                  size_t token_count, char* text, size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    const auto decoded = model->model.Decode(call.Array(tokens, token_count, "tokens"));
    return call.Give<char>(decoded, text, capacity, count);
  });
}

cosformer_status cosformer_classify(const cosformer_model* model, const char* text,
                                    size_t text_size, cosformer_prediction* predictions,
                                    size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    const auto given = call.Text(text, text_size, "text");
    return cosformer::capi::GiveClasses(call, model->model, predictions, capacity, count,
                                        [&] { return model->model.Classify(given); });
  });
}

cosformer_status cosformer_classify_pair(const cosformer_model* model, const char* first,
                                         size_t first_size, const char* second, size_t second_size,
                                         cosformer_prediction* predictions, size_t capacity,
                                         size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    const auto one = call.Text(first, first_size, "first");
    const auto other = call.Text(second, second_size, "second");
    return cosformer::capi::GiveClasses(call, model->model, predictions, capacity, count,
                                        [&] { return model->model.Classify(one, other); });
  });
}

cosformer_status cosformer_classify_tokens(const cosformer_model* model, const int32_t* tokens,
                                           size_t token_count, cosformer_prediction* predictions,
                                           size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    const auto given = call.Array(tokens, token_count, "tokens");
    return cosformer::capi::GiveClasses(call, model->model, predictions, capacity, count,
                                        [&] { return model->model.Classify(given); });
  });
}

cosformer_status cosformer_classify_image(const cosformer_model* model, const uint8_t* pixels,
                                          size_t pixel_count, cosformer_prediction* predictions,
                                          size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    const auto given = call.Array(pixels, pixel_count, "pixels");
    return cosformer::capi::GiveClasses(call, model->model, predictions, capacity, count,
                                        [&] { return model->model.ClassifyImage(given); });
  });
}

cosformer_status cosformer_fill(const cosformer_model* model, const char* text, size_t text_size,
                                int64_t each, cosformer_prediction* predictions, size_t capacity,
                                size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(model, "model");
    if (each < 1) {
      throw cosformer::Error(fmt::format("cosformer_fill: each is {}; give 1 or more", each));
    }
    std::vector<cosformer_prediction> all;
    for (const auto& blank : model->model.Fill(call.Text(text, text_size, "text"), each)) {
      const auto found = cosformer::capi::AsC(blank);
      all.insert(all.end(), found.begin(), found.end());
    }
    return call.Give<cosformer_prediction>(all, predictions, capacity, count);
  });
}
