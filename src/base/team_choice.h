// Whether a team of threads or one thread alone is the faster, found by trying both.
#pragma once

#include <array>
#include <cstddef>

namespace cosformer {

// A core that another process uses, or a host that takes cores away, makes a team wait for its last
// thread, which can be many times slower than one thread by itself; and it can begin and end at any
// time. So the better way is used, and the other tried for a fiftieth of the time.
//
// The choice is one for all regions of a caller, since threads that have worked a moment ago are
// awake, and others are not. What can be compared is the time that regions of one kind take: those
// that compute and move the same.
class TeamChoice {
 public:
  static constexpr size_t kKinds = 127;

  bool UsesTeam() const { return team_now_; }

  // A region took so many seconds, as UsesTeam() had it.
  void Took(size_t kind, double seconds) {
    seconds_ += seconds;
    ++regions_;
    double& alone = alone_[kind];
    if (!team_now_) {
      alone = alone == 0 ? seconds : (3 * alone + seconds) / 4;
    } else if (alone > 0) {
      team_ += seconds;
      instead_of_ += alone;
    }
    if ((seconds_ < kSlice || regions_ < kFewRegions) && seconds_ < kLongSlice) return;
    if (team_now_) {
      EndSliceWithTeam();
    } else {
      EndSliceAlone();
    }
    seconds_ = team_ = instead_of_ = 0;
    regions_ = 0;
  }

 private:
  // A slice of time, in seconds, after which the ways are compared.
  static constexpr double kSlice = 4e-3, kLongSlice = 30e-3;
  static constexpr int kFewRegions = 32;
  static constexpr double kSlicesBetweenTrials = 50;
  static constexpr double kClearly = 1.05;

  void EndSliceWithTeam() {
    if (2 * team_ < seconds_) {  // of most kinds it isn't known what one thread takes
      team_now_ = false;
      return;
    }
    const bool trial = !team_better_;
    if (instead_of_ > kClearly * team_) team_better_ = true;
    if (kClearly * instead_of_ < team_) team_better_ = false;
    if (trial || !team_better_) until_trial_ = kSlicesBetweenTrials * seconds_;
    until_trial_ -= seconds_;
    team_now_ = team_better_ && until_trial_ > 0;
  }

  void EndSliceAlone() {
    if (team_better_) until_trial_ = kSlicesBetweenTrials * seconds_;
    until_trial_ -= seconds_;
    team_now_ = team_better_ || until_trial_ <= 0;
  }

  bool team_now_ = true, team_better_ = true;
  std::array<double, kKinds> alone_{};  // seconds, lately; 0: not known
  // Of the slice: all seconds; those with a team of kinds that are known alone; what these would
  // have taken.
  double seconds_ = 0, team_ = 0, instead_of_ = 0;
  int regions_ = 0;
  double until_trial_ = 0;
};

}  // namespace cosformer
