#include "cli/endless.h"

#include <fmt/format.h>

#include "cosformer/error.h"
#include "runtime/network.h"

namespace cosformer::cli {

void AddEndlessOptions(CLI::App& app, EndlessOptions& options) {
  CLI::Option* no_endless =
      app.add_flag("--no-endless", options.no_endless, "End texts with the model's horizon");
  app.add_flag("--endless", options.endless,
               "Go on past the horizon, attending to the last half of it at least: what happens "
               "anyway, where the model can; with it, a model that can't is refused")
      ->excludes(no_endless);
}

runtime::LoadOptions LoadOptionsFor(const EndlessOptions& options, int threads) {
  return {.endless = !options.no_endless, .threads = threads};
}

void CheckEndless(const EndlessOptions& options, const runtime::Model& model) {
  const runtime::Network& network = model.network();
  if (options.endless && model.max_tokens()) {
    throw Error(fmt::format("--endless is not for this model: {} {}", network.LimitReason(),
                            *model.max_tokens()));
  }
  if (!options.no_endless) return;
  for (const runtime::LayerAttention& attention : network.attention()) {
    if (attention.options.endless) {
      throw Error("--no-endless is not for this model: its config.json makes it endless");
    }
  }
}

}  // namespace cosformer::cli
