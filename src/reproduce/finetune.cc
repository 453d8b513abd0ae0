// Masked language models, pre-trained with each system and fine-tuned: the paper's table of
// sentences, pairs and documents.
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "report/units.h"
#include "reproduce/experiments.h"
#include "reproduce/systems.h"
#include "reproduce/training.h"

namespace cosformer::reproduce {
namespace {

// Of the time of one fine-tuning, as the paper's own steps are.
constexpr double kPretrainingWeight = 4;

std::string FinetuningTitleOf(const std::string& task) {
  std::string title = task;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return title;
}

std::string Label(const std::string& what, const std::string& system, int64_t seed,
                  const Request& request) {
  return fmt::format("{}, {}{}", what, LabelOf(system), SeedLabel(request, seed));
}

std::vector<Cell> FinetuningCells(const Request& request) {
  const Set text = FindSet("pretraining", request.data);
  std::vector<Cell> cells;
  for (const int64_t seed : request.seeds) {
    for (const std::string& system : request.systems) {
      Cell pretrained =
          TrainingCell(request, {.id = TrainingId(TaskAndSystem("pretraining", system), seed),
                                 .label = Label("pre-training", system, seed, request),
                                 .system = system,
                                 .seed = seed,
                                 .settings = PretrainingSettings(request.scale),
                                 .set = text,
                                 .judged = Judged::kNot});
      pretrained.weight = kPretrainingWeight;
      for (const std::string& task : request.tasks) {
        const Set set = FindSet(task, request.data);
        Cell cell = TrainingCell(
            request,
            {.id = TrainingId(TaskAndSystem(task, system), seed),
             .label = Label(FinetuningTitleOf(task), system, seed, request),
             .system = system,
             .task = task,
             .seed = seed,
             .settings = FinetuningSettings(task, request.scale),
             .set = set,
             // GLUE's test splits have no classes.
             .judged = task == "imdb" || task == "amazon" ? Judged::kTest : Judged::kValidation,
             .from = RunOf(pretrained)});
        cell.needs = {pretrained.id};
        if (cell.absent.empty()) cell.absent = text.absent;
        if (&task == &request.tasks.front()) cells.push_back(pretrained);
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

std::vector<Block> ReportFinetuning(const Findings& findings, const Request& request,
                                    const std::string&) {
  Table table{.caption = "Accuracy in percent", .header = {"system"}};
  table.columns = "l";
  std::vector<std::string> majority = {"always the same class"};
  for (const std::string& task : request.tasks) {
    table.header.push_back(FinetuningTitleOf(task));
    table.columns += 'r';
    majority.push_back(MajorityText(findings, request, task));
  }
  table.rows.push_back(std::move(majority));
  for (const std::string& system : request.systems) {
    std::vector<std::string> row = {LabelOf(system)};
    for (const std::string& task : request.tasks) {
      row.push_back(AccuracyText(RepeatsOf(findings, request, TaskAndSystem(task, system)), table));
    }
    table.rows.push_back(std::move(row));
  }
  Table cost{.caption = "Pre-training",
             .header = {"system", "parameters", "steps", "tokens/s", "time"}};
  cost.columns = "lrrrr";
  for (const std::string& system : request.systems) {
    const auto value = [&](const char* name) {
      return MeanOf(findings, request, TaskAndSystem("pretraining", system), name);
    };
    const Finding& first =
        findings.At(TrainingId(TaskAndSystem("pretraining", system), request.seeds[0]));
    if (!first.Done()) {
      cost.rows.push_back({LabelOf(system), Shown(first, "", cost), "", "", ""});
      continue;
    }
    cost.rows.push_back({LabelOf(system), report::FormatCount(value("parameters")),
                         report::FormatInteger(std::llround(value("steps"))),
                         report::FormatCount(value("tokens_per_second")),
                         report::FormatDuration(value("training_seconds"))});
  }
  return {Heading{"Accuracy"}, std::move(table),
          PublishedAccuracies(PublishedFinetuning(), request, FinetuningTitleOf), std::move(cost)};
}

std::vector<std::string> SummariseFinetuning(const Findings& findings, const Request& request) {
  std::vector<std::string> sentences;
  for (const std::string& task : request.tasks) {
    std::string text =
        AccuracySentence(findings, request, task, FinetuningTitleOf(task), PublishedFinetuning());
    if (!text.empty()) sentences.push_back(std::move(text));
  }
  return sentences;
}

}  // namespace

Experiment FinetuneExperiment() {
  Experiment experiment;
  experiment.name = "finetune";
  experiment.title = "Fine-tuning: masked language models on sentences, pairs and documents";
  experiment.summary = "masked-LM pre-training, then SST-2, IMDB and pairs of sentences";
  experiment.systems = {"softmax",  "cosformer",  "linear",      "performer",
                        "reformer", "longformer", "rfa-gaussian"};
  experiment.tasks = {"qqp", "sst-2", "mnli", "imdb", "amazon", "mrpc", "rte"};
  experiment.needs = "pre-training: " + FoldersOf("pretraining");
  for (const std::string& task : experiment.tasks) {
    experiment.needs += fmt::format("; {}: {}", task, FoldersOf(task));
  }
  experiment.needs += "; GLUE's also in " + GlueFolders();
  experiment.scales = {kCompact, kOriginal};
  experiment.published = {PublishedFinetuning()};
  experiment.limits = {
      "The paper pre-trains a model of RoBERTa-base's size for 50,000 updates; the compact scale "
      "has 4 layers of width 256 and 1,500 updates on a smaller text. Accuracies are below the "
      "published ones.",
      "MRPC and RTE are pairs too, for who has no QQP and MNLI; the paper has no figures for them.",
      "GLUE's tasks are judged on their validation split, on which the best checkpoint is also "
      "chosen, as is usual."};
  experiment.cells = FinetuningCells;
  experiment.collect = [](const Cell&, const std::string& directory) {
    return CollectTraining(directory);
  };
  experiment.figure = TrainingFigure;
  experiment.summarise = SummariseFinetuning;
  experiment.report = ReportFinetuning;
  return experiment;
}

}  // namespace cosformer::reproduce
