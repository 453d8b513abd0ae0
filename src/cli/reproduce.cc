// `cosformer reproduce`: the experiments of the paper, options in, a report out.
#include "reproduce/reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/machine.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cosformer/error.h"
#include "report/units.h"
#include "reproduce/budget.h"
#include "reproduce/last_run.h"

namespace cosformer::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReproduceDescription =
    R"(Runs an experiment of the cosFormer paper on this machine, and sets it beside the published figures.

What was done before is not done again: stop it when you like, the same command goes on. It ends in
DIR/report.html and report.md for people, report.json and report.csv for programs, and tables.tex.)";

std::string Footer() {
  std::string text = "\nExperiments\n";
  for (const reproduce::Experiment& experiment : reproduce::Experiments()) {
    text += fmt::format("  {:<16}{}\n", experiment.name, experiment.summary);
  }
  text += "\nWhat is looked for under --data; a set that is not there is said, and not run\n";
  for (const reproduce::Experiment& experiment : reproduce::Experiments()) {
    if (experiment.needs.empty()) continue;
    text += fmt::format("  {:<16}{}\n", experiment.name, experiment.needs);
  }
  text += R"(
Examples
  cosformer reproduce efficiency --systems softmax,cosformer,performer --memory 8G
  cosformer reproduce lra --data sets --tasks text,image --budget 2h
  cosformer reproduce language-model --data sets --seeds 1,2,3
  cosformer reproduce efficiency --report-only --json -)";
  return text;
}

struct ReproduceArguments {
  std::string name;
  bool list = false;
  std::string out;
  reproduce::Request request;
  std::string memory;
  std::string budget;
  bool retry = false;
  bool report_only = false;
  bool dry_run = false;
  std::string json;
};

std::string ListText() {
  std::string text;
  for (const reproduce::Experiment& experiment : reproduce::Experiments()) {
    text += fmt::format("{:<16}{}\n", experiment.name, experiment.summary);
    if (!experiment.tasks.empty()) {
      text += fmt::format("  --tasks       {}\n", fmt::join(experiment.tasks, ","));
    }
    text += fmt::format("  --systems     {}\n", fmt::join(experiment.systems, ","));
  }
  return text;
}

// What goes on with the same experiment: without what is for one time alone.
std::string CommandText(const ReproduceArguments& arguments) {
  const reproduce::Request& request = arguments.request;
  std::vector<std::string> words = {"cosformer", "reproduce", arguments.name};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--out", arguments.out);
  add("--data", request.data);
  add("--systems", fmt::format("{}", fmt::join(request.systems, ",")));
  add("--tasks", fmt::format("{}", fmt::join(request.tasks, ",")));
  add("--seeds", fmt::format("{}", fmt::join(request.seeds, ",")));
  add("--lengths", fmt::format("{}", fmt::join(request.lengths, ",")));
  add("--scale", request.scale);
  add("--budget", arguments.budget);
  add("--memory", arguments.memory);
  if (request.eval_tokens > 0) add("--eval-tokens", fmt::format("{}", request.eval_tokens));
  if (request.threads > 0) add("--threads", fmt::format("{}", request.threads));
  return reproduce::ShellText(words);
}

int64_t MachineMemory() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

std::string MachineText(int threads) {
  const bench::Machine machine = bench::DescribeMachine({1}, 1, 0.01);
  return fmt::format("{}, {}, {} of {} cores, {} of memory", machine.cpu, machine.target,
                     threads > 0 ? threads : machine.threads, machine.threads,
                     report::FormatBytes(static_cast<double>(MachineMemory())));
}

// Nine tenths of the machine's: a process that wants more is told so, and the system need not
// choose one to kill.
int64_t MemoryLimit(const std::string& memory) {
  return memory.empty() ? MachineMemory() / 10 * 9 : reproduce::ParseBytes(memory, "--memory");
}

int RunReproduce(const ReproduceArguments& arguments) {
  if (!arguments.json.empty() && (arguments.list || arguments.dry_run)) {
    throw Error("--json is for results, and neither --list nor --dry-run has any: leave it out");
  }
  if (arguments.list) {
    if (!arguments.name.empty()) throw Error("--list lists all experiments: leave the name out");
    PrintResults(ListText(), "", "");
    return 0;
  }
  if (arguments.name.empty()) {
    throw Error("which experiment? cosformer reproduce --list shows them");
  }
  if (arguments.report_only && arguments.dry_run) {
    throw Error("--report-only and --dry-run are both given: choose one");
  }
  const reproduce::Experiment& experiment = reproduce::FindExperiment(arguments.name);
  reproduce::Request asked = arguments.request;
  if (!asked.data.empty() && !fs::is_directory(asked.data)) {
    throw Error(
        fmt::format("--data is \"{}\", which is no directory: give the one that holds the "
                    "sets, a folder each",
                    asked.data));
  }
  if (!asked.data.empty()) asked.data = fs::canonical(asked.data).string();
  CheckThreads(asked.threads);
  if (asked.eval_tokens < 0) {
    throw Error(
        fmt::format("--eval-tokens is {}; it must be at least 1, or 0 for all", asked.eval_tokens));
  }
  if (!arguments.memory.empty()) asked.memory = MemoryLimit(arguments.memory);
  reproduce::RunOptions options;
  options.budget =
      arguments.budget.empty() ? 0 : reproduce::ParseDuration(arguments.budget, "--budget");
  asked.by_time = options.budget > 0;
  options.out = fs::absolute(arguments.out.empty() ? "reproduce/" + experiment.name : arguments.out)
                    .lexically_normal()
                    .string();
  reproduce::RequireOwnDirectory(options.out, experiment.name);
  asked = arguments.report_only ? reproduce::WithLastRun(asked, options.out)
                                : reproduce::WithLastSets(asked, options.out);
  const reproduce::Request request = Complete(experiment, asked);
  CheckJsonOutput(arguments.json);
  options.data = request.data;
  options.program = fs::read_symlink("/proc/self/exe").string();
  options.memory = MemoryLimit(arguments.memory);
  options.threads = request.threads;
  options.retry = arguments.retry;
  options.version = COSFORMER_VERSION;
  options.machine = MachineText(request.threads);
  options.command = CommandText(arguments);
  if (arguments.dry_run) {
    PrintResults(DryRun(experiment, request, options), "", "");
    return 0;
  }
  const reproduce::Outcome outcome = arguments.report_only
                                         ? ReportOnly(experiment, request, options)
                                         : Reproduce(experiment, request, options);
  PrintResults(outcome.text, outcome.json, arguments.json);
  if (outcome.run.signal != 0) return 128 + outcome.run.signal;
  if (!outcome.failure.empty()) throw Error(outcome.failure);
  return 0;
}

}  // namespace

void AddReproduce(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("reproduce", kReproduceDescription);
  command->footer(Footer());
  command->get_formatter()->column_width(30);
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<ReproduceArguments>();
  reproduce::Request& request = arguments->request;
  command->add_option("NAME", arguments->name, "The experiment, see below")
      ->type_name("")
      ->default_str("");
  command->add_flag("--list", arguments->list, "List the experiments, their tasks and systems");
  command
      ->add_option("--out", arguments->out,
                   "Its directory; otherwise reproduce/NAME. What is done there is not done again")
      ->default_str("");
  command
      ->add_option(
          "--data", request.data,
          "The directory with your sets, a folder each, see below; otherwise that of the last "
          "run in --out")
      ->default_str("");
  command->add_option("--systems", request.systems, "Only these; otherwise all of the experiment")
      ->delimiter(',')
      ->default_str("");
  command->add_option("--tasks", request.tasks, "Only these; otherwise all")
      ->delimiter(',')
      ->default_str("");
  command->add_option("--seeds", request.seeds, "A run for each")->delimiter(',')->default_str("1");
  command->add_option("--lengths", request.lengths, "efficiency: only these")
      ->delimiter(',')
      ->default_str("1024 to 65536");
  command
      ->add_option("--scale", request.scale,
                   "compact: a CPU in hours; original: as published, a matter of weeks")
      ->default_str("compact");
  command
      ->add_option("--budget", arguments->budget,
                   "Time for all that is left, what is evaluated included, as 2h or 90m: each "
                   "cell gets its share. Otherwise trainings make the steps of their recipes")
      ->default_str("");
  command->add_option("--eval-tokens", request.eval_tokens,
                      "Evaluate on this many tokens of a split at most, spread over it; 0: on all "
                      "of it, or what a budget leaves time for");
  command
      ->add_option(
          "--memory", arguments->memory,
          "Resident memory that a process may have, as 8G: one that takes more is ended, and "
          "shown as ✗. Otherwise 9/10 of the machine's")
      ->default_str("");
  AddThreadsOption(*command, request.threads);
  command->add_flag("--retry", arguments->retry, "Run again what failed or was refused");
  command->add_flag("--report-only", arguments->report_only, "Write the report of what is there");
  command->add_flag("--dry-run", arguments->dry_run,
                    "Show what is done, and the commands of the rest");
  AddJsonOption(*command, arguments->json);
  command->callback([arguments, &code] { code = RunReproduce(*arguments); });
}

}  // namespace cosformer::cli
