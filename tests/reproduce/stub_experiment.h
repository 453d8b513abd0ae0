// Experiments of a few cells that the stub runs.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "folder.h"
#include "formats/json.h"
#include "reproduce/runner.h"

namespace cosformer::testing {

using namespace reproduce;

inline Cell StubCell(const std::string& id, std::vector<std::string> words,
                     const std::string& json = "") {
  Cell cell{.id = id, .label = "cell " + id, .system = id};
  cell.commands = {{std::move(words), json}};
  return cell;
}

// Leaves {"value": VALUE}.
inline Cell ValueCell(const std::string& id, int value) {
  return StubCell(id, {"write", "{json}", "{\"value\":" + std::to_string(value) + "}"}, "v.json");
}

// Trains, then leaves {"value": 5}.
inline Cell TrainCell(const std::string& id) {
  Cell cell = StubCell(id, {"train", "--out", "{cell}/run", "--json", "{json}"}, "train.json");
  cell.commands[0].run = "run";
  cell.commands.push_back({{"write", "{json}", "{\"value\":5}"}, "v.json"});
  return cell;
}

inline Experiment StubExperiment(std::vector<Cell> cells) {
  Experiment experiment;
  experiment.name = "stub";
  experiment.title = "A stub";
  experiment.systems = {"softmax"};
  experiment.limits = {"Nothing."};
  experiment.cells = [cells](const Request&) { return cells; };
  experiment.collect = [](const Cell&, const std::string& directory) {
    const std::string path = directory + "/v.json";
    return std::filesystem::exists(path) ? ReadJsonFile(path) : nlohmann::json::object();
  };
  experiment.figure = [](const Result& result) { return result.values.dump(); };
  experiment.summarise = [](const Findings&, const Request&) { return std::vector<std::string>{}; };
  experiment.report = [](const Findings&, const Request&, const std::string&) {
    return std::vector<Block>{};
  };
  return experiment;
}

class StubTest : public FolderTest {
 protected:
  ~StubTest() override {
    for (const char* name : {"STUB_LOG", "STUB_KILL_AT", "STUB_KILL"}) unsetenv(name);
  }

  RunOptions Options(const std::string& out = "out") const {
    return {.program = COSFORMER_STUB, .out = Path(out), .version = "1", .machine = "a machine"};
  }

  RunSummary Run(const std::vector<Cell>& cells, const RunOptions& options) const {
    std::filesystem::create_directories(options.out);
    Results results(options.out + "/results.jsonl");
    const Experiment experiment = StubExperiment(cells);
    return RunJobs(experiment, cells, JobsOf(cells, results, options), options, results);
  }
  Results ResultsOf(const RunOptions& options) const {
    return Results(options.out + "/results.jsonl");
  }
  // What was called, a line a call.
  std::string Calls() const { return Read(Path("calls")); }
  void LogCalls() const { setenv("STUB_LOG", Path("calls").c_str(), 1); }
};

}  // namespace cosformer::testing
