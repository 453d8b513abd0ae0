#include "reproduce/live_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "report/terminal.h"
#include "report/units.h"

namespace cosformer::reproduce {
namespace {

int Widest(const std::vector<const Cell*>& cells) {
  int widest = 0;
  for (const Cell* cell : cells) widest = std::max(widest, report::ColumnsOf(cell->label));
  return widest;
}

}  // namespace

LiveTable::LiveTable(const std::vector<const Cell*>& cells, double budget,
                     report::Clock::time_point begin)
    : meter_(std::chrono::seconds(60)),
      label_columns_(Widest(cells)),
      total_(cells.size()),
      budget_(budget),
      begin_(begin) {}

void LiveTable::Show(const Cell& cell, double part, const std::string& text) {
  const double done = budget_ > 0 ? report::SecondsSince(begin_) / budget_
                                  : (static_cast<double>(ended_) + std::clamp(part, 0.0, 1.0)) /
                                        static_cast<double>(std::max<size_t>(1, total_));
  meter_.Show(done, fmt::format("{} of {}: {}{}{}", ended_ + 1, total_, cell.label,
                                text.empty() ? "" : ", ", text));
}

void LiveTable::End(const Cell& cell, const std::string& sign, const std::string& figure,
                    double seconds) {
  ++ended_;
  const int padding = std::max(0, label_columns_ - report::ColumnsOf(cell.label));
  meter_.Line(fmt::format("{} {}{}  {:>10}  {}", sign, cell.label,
                          std::string(static_cast<size_t>(padding), ' '),
                          report::FormatDuration(seconds), figure));
}

}  // namespace cosformer::reproduce
