#include "base/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/team_choice.h"

namespace cosformer {
namespace {

// One thread of today's machines, roughly: what is wrong by a factor is learned from how long
// regions take.
constexpr double kFlopsPerSecond = 50e9;
constexpr double kBytesPerSecond = 16e9;
// What a thread must have to do: to wake one takes 5 to 40 us, one that is awake less than 1.
constexpr double kSecondsPerThread = 5e-6;
// From here on starting and waiting count for little, and a trial would cost much.
constexpr double kLongest = 0.2;

// So that a test takes the same way on every machine.
bool AlwaysTeams() {
  static const bool always = [] {
    const char* teams = std::getenv("COSFORMER_TEAMS");
    return teams != nullptr && std::string_view(teams) == "always";
  }();
  return always;
}

// Regions of one kind compute and move the same within 20 %, as those of one place in a model do.
size_t KindOf(const Work& work) {
  const auto step = [](double x) { return static_cast<size_t>(std::lround(4 * std::log2(1 + x))); };
  return (31 * step(work.flops) + step(work.bytes)) % TeamChoice::kKinds;
}

// Of each thread that starts teams: its neighbours' regions say nothing of its own.
thread_local TeamChoice team_choice;

}  // namespace

int ThreadsOr(int threads) { return threads > 0 ? threads : std::max(1, omp_get_max_threads()); }

Team::Team(int threads, int64_t pieces, Work work) {
  const double seconds = std::max(work.flops / kFlopsPerSecond, work.bytes / kBytesPerSecond);
  if (pieces < 2 || threads == 1 || seconds < 2 * kSecondsPerThread || omp_get_level() > 0) return;
  size_ = static_cast<int>(
      std::min<double>({static_cast<double>(ThreadsOr(threads)), static_cast<double>(pieces),
                        std::floor(seconds / kSecondsPerThread)}));
  if (size_ == 1 || seconds > kLongest || AlwaysTeams()) return;
  timed_ = true;
  kind_ = KindOf(work);
  if (!team_choice.UsesTeam()) size_ = 1;
  begin_ = Clock::now();
}

Team::~Team() {
  if (!timed_) return;
  team_choice.Took(kind_, std::chrono::duration<double>(Clock::now() - begin_).count());
}

}  // namespace cosformer
