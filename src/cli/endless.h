// Whether texts go on past a model's horizon, as the commands that run language models are told.
#pragma once

#include <CLI/CLI.hpp>

#include "cosformer/runtime.h"

namespace cosformer::cli {

// Neither: they do where the model can.
struct EndlessOptions {
  bool endless = false;
  bool no_endless = false;

  bool Given() const { return endless || no_endless; }
};
void AddEndlessOptions(CLI::App& app, EndlessOptions& options);

runtime::LoadOptions LoadOptionsFor(const EndlessOptions& options, int threads);
// Throws Error for what was asked for and this model, loaded so, can't do.
void CheckEndless(const EndlessOptions& options, const runtime::Model& model);

}  // namespace cosformer::cli
