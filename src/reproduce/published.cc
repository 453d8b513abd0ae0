#include "reproduce/published.h"

#include <cmath>

namespace cosformer::reproduce {
namespace {

constexpr double kOutOfMemory = NAN;

}  // namespace

std::optional<double> PublishedTable::Find(const std::string& system,
                                           const std::string& column) const {
  for (const PublishedRow& row : rows) {
    if (row.system != system) continue;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == column) return row.values.at(i);
    }
  }
  return std::nullopt;
}

// The paper names one Sparse Transformer. Long-Range Arena, whose code and rules the table follows,
// has the fixed pattern.

const PublishedTable& PublishedInference() {
  static const PublishedTable kTable = {"inference, steps a second on a GPU",
                                        {"1024", "2048", "3072", "4096"},
                                        {{"softmax", {25.37, 7.83, kOutOfMemory, kOutOfMemory}},
                                         {"local", {57.73, 33.19, 23.36, 17.79}},
                                         {"linformer", {70.09, 39.1, 27.05, 20.62}},
                                         {"reformer", {44.21, 21.58, 12.74, 8.37}},
                                         {"bigbird", {20.96, 11.5, 8.12, 6.15}},
                                         {"linear", {67.85, 38.24, 26.28, 19.98}},
                                         {"performer", {74.15, 42.31, 29.5, 22.44}},
                                         {"longformer", {22.99, 6.72, kOutOfMemory, kOutOfMemory}},
                                         {"sparse-fixed", {24.87, 7.5, kOutOfMemory, kOutOfMemory}},
                                         {"cosformer", {58.82, 33.45, 22.77, 17.42}}}};
  return kTable;
}

const PublishedTable& PublishedTraining() {
  static const PublishedTable kTable = {"training, steps a second on a GPU",
                                        {"1024", "2048", "3072", "4096"},
                                        {{"softmax", {6.95, 2.23, kOutOfMemory, kOutOfMemory}},
                                         {"local", {13.45, 6.71, 4.32, 3.09}},
                                         {"linformer", {14.75, 7.09, 4.52, 3.21}},
                                         {"reformer", {11.58, 4.98, 2.94, 1.95}},
                                         {"bigbird", {6.46, 3.2, 2.13, 1.53}},
                                         {"linear", {11.86, 5.54, 3.53, 2.56}},
                                         {"performer", {14, 6.49, 4.1, 2.94}},
                                         {"longformer", {4.4, 1.3, kOutOfMemory, kOutOfMemory}},
                                         {"sparse-fixed", {6.77, 2.2, kOutOfMemory, kOutOfMemory}},
                                         {"cosformer", {12.27, 5.72, 3.62, 2.64}}}};
  return kTable;
}

const PublishedTable& PublishedLongRangeArena() {
  static const PublishedTable kTable = {
      "Long-Range Arena, accuracy in percent",
      {"listops", "text", "retrieval", "image", "pathfinder", "avg"},
      {{"local", {15.82, 52.98, 53.39, 41.46, 66.63, 46.06}},
       {"linear", {16.13, 65.9, 53.09, 42.34, 75.3, 50.55}},
       {"reformer", {37.27, 56.1, 53.4, 38.07, 68.5, 50.67}},
       {"sparse-fixed", {17.07, 63.58, 59.59, 44.24, 71.71, 51.24}},
       {"sinkhorn", {33.67, 61.2, 53.83, 41.23, 67.45, 51.29}},
       {"linformer", {35.7, 53.94, 52.27, 38.56, 76.34, 51.36}},
       {"performer", {18.01, 65.4, 53.82, 42.77, 77.05, 51.41}},
       {"synthesizer", {36.99, 61.68, 54.67, 41.61, 69.45, 52.88}},
       {"longformer", {35.63, 62.85, 56.89, 42.22, 69.71, 53.46}},
       {"softmax", {36.37, 64.27, 57.46, 42.44, 71.4, 54.39}},
       {"bigbird", {36.05, 64.02, 59.29, 40.83, 74.87, 55.01}},
       {"cosformer", {37.9, 63.41, 61.36, 43.17, 70.33, 55.23}}}};
  return kTable;
}

const PublishedTable& PublishedFinetuning() {
  static const PublishedTable kTable = {
      "pre-trained in both directions, then fine-tuned: accuracy in percent",
      {"qqp", "sst-2", "mnli", "imdb", "amazon", "avg"},
      {{"softmax", {88.41, 92.31, 79.15, 92.86, 75.79, 85.70}},
       {"performer", {69.92, 50.91, 35.37, 60.36, 64.84, 56.28}},
       {"reformer", {63.18, 50.92, 35.47, 50.01, 64.28, 52.77}},
       {"linear", {74.85, 84.63, 66.56, 91.48, 72.50, 78.00}},
       {"longformer", {85.51, 88.65, 77.22, 91.14, 73.34, 83.17}},
       {"rfa-gaussian", {75.28, 76.49, 57.6, 78.98, 68.15, 71.30}},
       {"cosformer", {89.26, 91.05, 76.70, 92.95, 76.30, 85.25}}}};
  return kTable;
}

const PublishedTable& PublishedLanguageModel() {
  static const PublishedTable kTable = {"WikiText-103, perplexity a word",
                                        {"valid", "test"},
                                        {{"softmax", {24.5, 26.2}},
                                         {"linear", {28.7, 30.2}},
                                         {"rfa-gaussian", {25.8, 27.5}},
                                         {"rfa-arccos", {26.4, 28.1}},
                                         {"rfa-gate-arccos", {24.8, 26.3}},
                                         {"rfa-gate-gaussian", {23.2, 25.0}},
                                         {"cosformer", {23.5, 23.1}}}};
  return kTable;
}

}  // namespace cosformer::reproduce
