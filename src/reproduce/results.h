// The results of an experiment, in the file results.jsonl: a JSON object a line, appended as cells
// end and on the disk before the next begins.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reproduce/cell.h"

namespace cosformer::reproduce {

enum class State {
  kDone,
  kFailed,   // began, and could not end: out of memory, out of time, a crash, a loss that is no
             // number
  kRefused,  // could not begin: a system that does not do this, a length that does not divide
};

struct Result {
  std::string cell;  // its id
  nlohmann::json key =
      nlohmann::json::object();  // its system, task, seed and length, as far as it has them
  std::string fingerprint;
  State state = State::kDone;
  std::string reason;                                // a sentence, unless it is done
  nlohmann::json values = nlohmann::json::object();  // what the experiment makes of it
  double seconds = 0;                                // of its commands, with what was interrupted
  int64_t peak_bytes = 0;                            // of the largest of them, resident
  double share_seconds = 0;                          // of the budget; 0: there was none
  std::string directory;                             // in the experiment's
  std::string version;                               // of the program
  std::string machine;
  std::string started;   // the first time, "2026-01-31T12:00:00Z"
  std::string finished;  // as well
};

// What tables and lists show of what did not become a result, and what each of the signs stands
// for.
inline constexpr std::array<std::pair<const char*, const char*>, 4> kSigns = {
    {{"✗", "out of memory"}, {"◔", "out of time"}, {"!", "failed"}, {"-", "refused"}}};

// One of them; "✓" for what is done.
std::string SignOf(const Result& result);

// A time as results have it.
std::string UtcText(std::time_t time);

class Results {
 public:
  // Reads the file, if it is there. A last line that was cut off, as by a power cut, is left out
  // and Remark() says so; throws Error with the number of another line that is wrong.
  explicit Results(const std::string& path);

  // Appends a line and waits until it is on the disk; first drops a last line that was cut off.
  // Throws Error, naming the file, if it can't.
  void Add(const Result& result);

  // The latest of this cell with these settings.
  const Result* Find(const std::string& cell, const std::string& fingerprint) const;
  // The latest of this cell, whatever its settings.
  const Result* Latest(const std::string& cell) const;

  const std::vector<Result>& all() const { return results_; }
  const std::string& Remark() const { return remark_; }

 private:
  std::string path_;
  std::vector<Result> results_;
  std::optional<int64_t> cut_;  // where the half line begins
  std::string remark_;
};

}  // namespace cosformer::reproduce
