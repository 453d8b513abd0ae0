// The same program in C99. docs/runtime.md shows it from here:
#include <cosformer/cosformer.h>
#include <stdio.h>
#include <string.h>

static int show(const cosformer_token *token, void *user) {
  fwrite(token->text, 1, token->text_size, (FILE *)user);
  return 0;  // go on
}

int main(int argc, char **argv) {
  const char *prompt = "Attention is";
  int32_t tokens[64];
  size_t count = 0;
  cosformer_model *model = NULL;
  cosformer_session *session = NULL;
  cosformer_sampling sampling;
  cosformer_generate_options options;
  int failed = cosformer_sampling_init(&sampling, sizeof(sampling)) ||
               cosformer_generate_options_init(&options, sizeof(options));
  if (!failed) {
    sampling.temperature = 0.8;
    options.sampling = &sampling;
    options.max_tokens = 40;
    failed = cosformer_model_load(argc > 1 ? argv[1] : "runs/quickstart", NULL, &model) ||
             cosformer_encode(model, prompt, strlen(prompt), tokens, 64, &count) ||
             cosformer_session_new(model, NULL, &session) ||
             cosformer_session_feed(session, tokens, count) ||
             cosformer_generate(session, &options, show, stdout, NULL);
  }
  if (failed) fprintf(stderr, "%s\n", cosformer_last_error());
  cosformer_session_free(session);
  cosformer_model_free(model);
  return failed;
}
