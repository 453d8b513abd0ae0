// A trained model from C, and from whatever can call C: Python's ctypes, Rust, Go, Julia. The C++
// API (runtime.h, generate.h) says more of what each thing means; this one is the same in C99.
//
//   cosformer_model *model = NULL;
//   if (cosformer_model_load("runs/lm-cosformer/model", NULL, &model) != COSFORMER_OK) {
//     fprintf(stderr, "%s\n", cosformer_last_error());
//   }
//
// Contracts that hold for everything here:
//   - Every function that can fail returns COSFORMER_OK (0) or the kind of failure, and
//     cosformer_last_error() has a sentence about it. Nothing is thrown, nothing printed, and a
//     NULL that is not allowed is an error, not a crash.
//   - A function that fails has changed nothing, and written nothing but NULL where a new handle
//     would have been, and *count with COSFORMER_BUFFER_TOO_SMALL. The exception is
//     COSFORMER_OUT_OF_MEMORY: a session that was being fed is then to be reset or freed. (Where
//     there is not even a KiB left the process may end, as it is with C++.)
//   - Arrays are the caller's, and are not kept after the call. An array of no elements may be
//     NULL. Texts are bytes with a size, UTF-8 where it matters, and may hold zeros; a name that
//     ends with a zero byte is marked as `path` or `stop`.
//   - Functions with `capacity` and `count` write *count elements, which is at most `capacity`.
//     With a capacity of 0 they tell the *count that there would be, and do nothing else. With one
//     that is smaller than that they write *count likewise, and return COSFORMER_BUFFER_TOO_SMALL.
//   - Models may be used by several threads at once; sessions and samplers by one at a time, but
//     each by any. A handle that is freed is not in use by another thread, nor used again.
//   - Options are structs that may grow at their end: they are filled by their _init function,
//     which is given sizeof, and then changed. NULL for options means that they are as after _init.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define COSFORMER_API __attribute__((visibility("default")))
#else
#define COSFORMER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t cosformer_status;
enum {
  COSFORMER_OK = 0,
  COSFORMER_INVALID = 1,           // what was given, or the file that it names, can't be used
  COSFORMER_BUFFER_TOO_SMALL = 2,  // *count says how large it must be
  COSFORMER_OUT_OF_MEMORY = 3,
  COSFORMER_FAILED = 4  // none of these: a fault of the system, or of the library
};

// The version of the library, "0.1.0". It is the library's own.
COSFORMER_API const char *cosformer_version(void);

// The sentence about the last call of this thread that failed; "" if none did. It holds until the
// next call of this thread that fails, or the thread's end; it is the library's own.
COSFORMER_API const char *cosformer_last_error(void);

// ---- models

typedef struct cosformer_model cosformer_model;

typedef struct cosformer_load_options {
  size_t size;
  int32_t endless;  // not 0: texts go on past the horizon of cosFormer's layers, where they can
  int32_t threads;  // 0: all cores
} cosformer_load_options;
COSFORMER_API cosformer_status cosformer_load_options_init(cosformer_load_options *options,
                                                           size_t size);

// Loads a model's directory, or a run's, named by `path`. The model is the caller's, to be given to
// cosformer_model_free().
COSFORMER_API cosformer_status cosformer_model_load(const char *path,
                                                    const cosformer_load_options *options,
                                                    cosformer_model **model);

// Frees the handle; sessions and samplers of the model stay as they are, and keep what they need of
// it. NULL is nothing to free.
COSFORMER_API void cosformer_model_free(cosformer_model *model);

typedef int32_t cosformer_use;
enum {
  COSFORMER_LANGUAGE_MODEL = 0,  // predicts the next token: sessions
  COSFORMER_MASKED_MODEL = 1,    // predicts hidden tokens: cosformer_fill()
  COSFORMER_CLASSIFIER = 2,      // the class of a text or an image: cosformer_classify()
  COSFORMER_RETRIEVAL = 3        // whether two texts belong together: cosformer_classify_pair()
};

typedef struct cosformer_facts {
  cosformer_use use;
  int32_t has_tokenizer;  // 0: it reads tokens or images, not text
  int32_t end_token;      // the token that ends a text; -1: none
  int64_t vocabulary;     // 0 for images
  int64_t parameters;
  int64_t weight_bytes;
  int64_t max_tokens;  // of a text that begins now; -1: any number
  int64_t classes;     // 0: it predicts tokens
} cosformer_facts;

// Fills *facts; `size` is sizeof(cosformer_facts), as the caller knows it. Any thread.
COSFORMER_API cosformer_status cosformer_model_facts(const cosformer_model *model,
                                                     cosformer_facts *facts, size_t size);

// The name of a class, 0 to classes - 1; "" where classes have none. It is the model's, and holds
// until the model is freed. Any thread.
COSFORMER_API cosformer_status cosformer_model_label(const cosformer_model *model, int64_t index,
                                                     const char **label);

// The tokens of a text, as the model reads them. What is no UTF-8 is refused, but where tokens are
// bytes. Any thread.
COSFORMER_API cosformer_status cosformer_encode(const cosformer_model *model, const char *text,
                                                size_t text_size, int32_t *tokens, size_t capacity,
                                                size_t *count);

// The text of tokens, without a zero byte behind it. Any thread.
COSFORMER_API cosformer_status cosformer_decode(const cosformer_model *model, const int32_t *tokens,
                                                size_t token_count, char *text, size_t capacity,
                                                size_t *count);

// ---- whole texts in, predictions out

typedef struct cosformer_prediction {
  int32_t token;           // or class
  double log_probability;  // exp() of it is the probability
} cosformer_prediction;

// All classes, the likeliest first, of one text. Any thread.
COSFORMER_API cosformer_status cosformer_classify(const cosformer_model *model, const char *text,
                                                  size_t text_size,
                                                  cosformer_prediction *predictions,
                                                  size_t capacity, size_t *count);

// The same of two texts: a model for retrieval, or a classifier that was trained on pairs. Any
// thread.
COSFORMER_API cosformer_status cosformer_classify_pair(const cosformer_model *model,
                                                       const char *first, size_t first_size,
                                                       const char *second, size_t second_size,
                                                       cosformer_prediction *predictions,
                                                       size_t capacity, size_t *count);

// The same of tokens. Any thread.
COSFORMER_API cosformer_status cosformer_classify_tokens(const cosformer_model *model,
                                                         const int32_t *tokens, size_t token_count,
                                                         cosformer_prediction *predictions,
                                                         size_t capacity, size_t *count);

// The same of an image: its pixels row by row, the channels of each together. Any thread.
COSFORMER_API cosformer_status cosformer_classify_image(const cosformer_model *model,
                                                        const uint8_t *pixels, size_t pixel_count,
                                                        cosformer_prediction *predictions,
                                                        size_t capacity, size_t *count);

// For every <mask> in the text the `each` likeliest tokens, or all where there are fewer, the
// likeliest first: [blanks, each]. Any thread.
COSFORMER_API cosformer_status cosformer_fill(const cosformer_model *model, const char *text,
                                              size_t text_size, int64_t each,
                                              cosformer_prediction *predictions, size_t capacity,
                                              size_t *count);

// ---- sessions: a text that a language model has read, and goes on reading

typedef struct cosformer_session cosformer_session;

typedef struct cosformer_session_options {
  size_t size;
  // Earlier states to keep, for cosformer_session_edit(): each takes as much memory as the session.
  // 0 to 1024.
  int64_t checkpoints;
} cosformer_session_options;
COSFORMER_API cosformer_status cosformer_session_options_init(cosformer_session_options *options,
                                                              size_t size);

// A session that has read nothing. It is the caller's, to be given to cosformer_session_free(), and
// does not need the model's handle any more. Any thread.
COSFORMER_API cosformer_status cosformer_session_new(const cosformer_model *model,
                                                     const cosformer_session_options *options,
                                                     cosformer_session **session);

// NULL is nothing to free.
COSFORMER_API void cosformer_session_free(cosformer_session *session);

// A second session that has read the same, and is the caller's as the first is. From then on they
// have nothing to do with each other, and may be used by different threads.
COSFORMER_API cosformer_status cosformer_session_fork(const cosformer_session *session,
                                                      cosformer_session **fork);

// Reads the next tokens.
COSFORMER_API cosformer_status cosformer_session_feed(cosformer_session *session,
                                                      const int32_t *tokens, size_t token_count);

// Reads the next tokens and gives the logits after each: [token_count, vocabulary]. Nothing is read
// where there is no room for them.
COSFORMER_API cosformer_status cosformer_session_feed_all(cosformer_session *session,
                                                          const int32_t *tokens, size_t token_count,
                                                          float *logits, size_t capacity,
                                                          size_t *count);

// Of the token that follows: [vocabulary]. An error before anything was read.
COSFORMER_API cosformer_status cosformer_session_logits(const cosformer_session *session,
                                                        float *logits, size_t capacity,
                                                        size_t *count);

// How many tokens were read.
COSFORMER_API cosformer_status cosformer_session_position(const cosformer_session *session,
                                                          int64_t *position);

// The most tokens that it can read: the model's, or fewer where it was saved by a model that was
// not loaded as endless; -1: any number.
COSFORMER_API cosformer_status cosformer_session_max_tokens(const cosformer_session *session,
                                                            int64_t *max_tokens);

// The memory that the session holds, its checkpoints included.
COSFORMER_API cosformer_status cosformer_session_bytes(const cosformer_session *session,
                                                       size_t *bytes);

// Makes the text read so far be `tokens`: goes back to the last checkpoint within the part that
// both share, or to the beginning, and reads the rest. *fed, if it is not NULL, becomes the number
// of tokens that were read anew.
COSFORMER_API cosformer_status cosformer_session_edit(cosformer_session *session,
                                                      const int32_t *tokens, size_t token_count,
                                                      int64_t *fed);

// Forgets all that was read.
COSFORMER_API cosformer_status cosformer_session_reset(cosformer_session *session);

// Writes the session to a file, whole or not at all; checkpoints are left out.
COSFORMER_API cosformer_status cosformer_session_save(const cosformer_session *session,
                                                      const char *path);

// Reads one that was saved with the same model. It is the caller's, as from
// cosformer_session_new().
COSFORMER_API cosformer_status cosformer_session_load(const cosformer_model *model,
                                                      const char *path,
                                                      const cosformer_session_options *options,
                                                      cosformer_session **session);

// Feeds tokens[i], of token_counts[i] tokens, to sessions[i], in one pass over the weights: with
// many sessions a small part of the time that they would take one after another, and the same
// logits to the bit. The sessions are different ones of one model. All are read, or none.
COSFORMER_API cosformer_status cosformer_feed_batch(cosformer_session *const *sessions,
                                                    size_t session_count,
                                                    const int32_t *const *tokens,
                                                    const size_t *token_counts);

// The logits of several sessions of one model: [session_count, vocabulary].
COSFORMER_API cosformer_status cosformer_logits_batch(cosformer_session *const *sessions,
                                                      size_t session_count, float *logits,
                                                      size_t capacity, size_t *count);

// ---- text from a language model

typedef struct cosformer_logit_bias {
  int32_t token;
  float value;  // -INFINITY: the token never comes
} cosformer_logit_bias;

// sampling.h says how they work together.
typedef struct cosformer_sampling {
  size_t size;
  double temperature;         // 0: the likeliest token; or 1e-6 to 1e6
  int64_t top_k;              // 0: all
  double top_p;               // 0 to 1; 1: all
  double min_p;               // 0 to 1; 0: all
  double repetition_penalty;  // above 0; 1: none
  int64_t repetition_window;  // of the latest tokens; 0: all
  const cosformer_logit_bias *logit_bias;
  size_t logit_bias_count;
  uint64_t seed;
} cosformer_sampling;
COSFORMER_API cosformer_status cosformer_sampling_init(cosformer_sampling *options, size_t size);

typedef struct cosformer_generate_options {
  size_t size;
  const cosformer_sampling *sampling;  // NULL: as after cosformer_sampling_init()
  int64_t max_tokens;                  // 0: any number, until something else ends the text
  const char *const *stop;             // the text ends before the first of these to be complete
  size_t stop_count;
  int32_t stop_at_end;    // not 0: the token that ends a text ends this one
  int64_t likeliest;      // so many of the likeliest tokens are given with each
  const int32_t *before;  // tokens that the text goes on after: for the repetition penalty, and for
                          // whether the text begins with a blank. They are not fed. None: the
                          // latest that the session was fed, which it remembers (1024 at most);
                          // where it knows of none the text begins as within a line
  size_t before_count;
} cosformer_generate_options;
COSFORMER_API cosformer_status cosformer_generate_options_init(cosformer_generate_options *options,
                                                               size_t size);

// A token on its way: all of it is the library's, and holds during the call that gives it.
typedef struct cosformer_token {
  int32_t token;
  double log_probability;  // under the model's own distribution
  const char *text;        // what can be shown now, UTF-8, with a zero byte behind it; all of them
  size_t text_size;        // together are the text
  const cosformer_prediction *likeliest;
  size_t likeliest_count;
} cosformer_token;

// Called with every token, in the thread that called. Returns 0 to go on; anything else ends the
// text. It must not use the session.
typedef int (*cosformer_on_token)(const cosformer_token *token, void *user);

typedef int32_t cosformer_stop_reason;
enum {
  COSFORMER_STOP_LENGTH = 1,    // max_tokens
  COSFORMER_STOP_END = 2,       // the token that ends a text
  COSFORMER_STOP_STRING = 3,    // one of `stop`
  COSFORMER_STOP_LIMIT = 4,     // the longest text there may be: cosformer_session_max_tokens()
  COSFORMER_STOP_CANCELLED = 5  // `each` returned something else than 0
};

// Goes on with the text of the session, which was fed something before: calls each(token, user) for
// every token. The session ends with the last token that was fed: all but the last. *reason, if it
// is not NULL, says why it ended. An error can come in the midst of it, after some tokens.
COSFORMER_API cosformer_status cosformer_generate(cosformer_session *session,
                                                  const cosformer_generate_options *options,
                                                  cosformer_on_token each, void *user,
                                                  cosformer_stop_reason *reason);

typedef struct cosformer_beam_options {
  size_t size;
  int64_t beams;          // 1 to 1024
  int32_t stop_at_end;    // not 0: the token that ends a text ends a beam
  int64_t max_tokens;     // 1 or more
  double length_penalty;  // 0 favours short texts
  const int32_t *before;  // tokens that the text goes on after, as in cosformer_generate_options
  size_t before_count;
} cosformer_beam_options;
COSFORMER_API cosformer_status cosformer_beam_options_init(cosformer_beam_options *options,
                                                           size_t size);

// One continuation: all of it is the library's, and holds during the call that gives it.
typedef struct cosformer_beam {
  const int32_t *tokens;  // without the one that ends the text
  size_t token_count;
  double log_probability;  // of all tokens, that one included
  double score;            // what it is ranked by
  int32_t ended;           // not 0: it has come to its end
  const char *text;        // with a zero byte behind it; "" without a tokenizer
  size_t text_size;
} cosformer_beam;

// Returns 0 to be given the next; anything else for no more.
typedef int (*cosformer_on_beam)(const cosformer_beam *beam, void *user);

// Searches for the likeliest continuations, and calls each(beam, user) for those found, the best
// first, in the thread that called. The session stays as it is.
COSFORMER_API cosformer_status cosformer_beam_search(const cosformer_session *session,
                                                     const cosformer_beam_options *options,
                                                     cosformer_on_beam each, void *user);

// ---- choosing tokens from logits, where texts are fed in batches

typedef struct cosformer_sampler cosformer_sampler;

// Draws the tokens of one text. It is the caller's, to be given to cosformer_sampler_free(), and
// does not need the model's handle any more. Any thread.
COSFORMER_API cosformer_status cosformer_sampler_new(const cosformer_model *model,
                                                     const cosformer_sampling *options,
                                                     cosformer_sampler **sampler);

// NULL is nothing to free.
COSFORMER_API void cosformer_sampler_free(cosformer_sampler *sampler);

// Tells of tokens that the text has already, oldest first: for the repetition penalty.
COSFORMER_API cosformer_status cosformer_sampler_observe(cosformer_sampler *sampler,
                                                         const int32_t *tokens, size_t token_count);

// Chooses the token that follows logits of [vocabulary], and observes it.
COSFORMER_API cosformer_status cosformer_sampler_next(cosformer_sampler *sampler,
                                                      const float *logits, size_t logit_count,
                                                      cosformer_prediction *chosen);

#ifdef __cplusplus
}
#endif
