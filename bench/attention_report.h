// What `cosformer bench attention` found, for a person, a program and a picture.
#pragma once

#include <string>

#include "bench/attention_bench.h"
#include "report/plot.h"

namespace cosformer::bench {

// Aligned columns, a block for each mode and number of threads; the machine's limits before them,
// what follows from them after.
std::string ToTable(const AttentionBench& bench);

// {"machine": {...}, "rows": [...], "skipped": [...]}, with a newline at the end.
std::string ToJson(const AttentionBench& bench);

// Time against length with the most threads measured: a panel for each mode, and one for the
// decoding step.
report::Figure ToFigure(const AttentionBench& bench);

}  // namespace cosformer::bench
