// config.json: what was read stays the same when it is validated again, or written and read again.
#include "formats/config.h"

#include "formats/json.h"
#include "fuzz.h"

namespace cosformer::fuzz {

void Try(std::string_view input) {
  const ModelConfig config = ParseConfig(ParseJson(input, "the input"), "the input");
  MustAccept("a config that was read is valid, and is what it says when it is written", [&] {
    ModelConfig validated = config;
    Validate(validated);
    Check(validated == config, "validating twice changes nothing");
    const std::string text = ToJson(config).dump();
    Check(ParseConfig(ParseJson(text, "written")) == config, "a config that is written comes back");
  });
}

}  // namespace cosformer::fuzz
