// What was asked for when an experiment was last run, in the file request.json of its directory: a
// report that is written later is then of the same settings, and shows the command that goes on.
#pragma once

#include <optional>
#include <string>

#include "reproduce/experiment.h"

namespace cosformer::reproduce {

struct LastRun {
  std::string experiment;
  std::string command;  // as it would be typed
  Request request;
};

// Throws Error, naming the file, if it can't.
void WriteLastRun(const std::string& out, const LastRun& last);

// Nothing if there is none; throws Error if the file is not one of these.
std::optional<LastRun> ReadLastRun(const std::string& out);

// Throws Error if the directory holds another experiment than the one of this name.
void RequireOwnDirectory(const std::string& out, const std::string& experiment);

// The request with the sets of the last run in `out`, if it has none and they are still there.
Request WithLastSets(Request asked, const std::string& out);

// The request with what it does not give taken from the last run in `out`, if there was one.
Request WithLastRun(Request asked, const std::string& out);

}  // namespace cosformer::reproduce
