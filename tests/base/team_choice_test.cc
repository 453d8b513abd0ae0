// The choice between a team and one thread, on machines of the test's own.
#include "base/team_choice.h"

#include <gtest/gtest.h>

namespace cosformer {
namespace {

// A machine on which regions take so many seconds, of two kinds that take turns in runs of unlike
// lengths, the second three times as long as the first.
class Machine {
 public:
  double alone = 1e-4, team = 1e-4;
  size_t kind = 0;  // of the first

  // The share of `seconds` that went into regions with the team.
  double TeamShareOf(double seconds) {
    double with_team = 0, all = 0;
    while (all < seconds) {
      const bool second = ++count_ % 100 < 37;
      const bool uses_team = choice_.UsesTeam();
      const double taken = (uses_team ? team : alone) * (second ? 3 : 1);
      choice_.Took(kind + (second ? 1 : 0), taken);
      all += taken;
      if (uses_team) with_team += taken;
    }
    return with_team / all;
  }

 private:
  TeamChoice choice_;
  int count_ = 0;
};

TEST(TeamChoiceTest, KeepsATeamThatIsFaster) {
  for (const double team : {0.9e-4, 0.6e-4, 0.1e-4}) {
    Machine machine;
    machine.team = team;
    EXPECT_GT(machine.TeamShareOf(10), 0.95) << team;
  }
}

TEST(TeamChoiceTest, LeavesATeamThatWaitsForItsLastThread) {
  for (const double team : {1.1e-4, 4e-4, 1e-2}) {
    Machine machine;
    machine.team = team;
    // What trials cost, also where one region takes longer than a trial is meant to.
    EXPECT_LT(machine.TeamShareOf(100), 0.05) << team;
  }
}

TEST(TeamChoiceTest, NoticesThatCoresWereTakenAway) {
  Machine machine;
  machine.team = 0.6e-4;
  machine.TeamShareOf(20);
  machine.team = 4e-4;
  EXPECT_LT(machine.TeamShareOf(2), 0.1);
}

TEST(TeamChoiceTest, NoticesThatCoresAreFreeAgain) {
  Machine machine;
  machine.team = 4e-4;
  machine.TeamShareOf(20);
  machine.team = 0.6e-4;
  machine.TeamShareOf(5);
  EXPECT_GT(machine.TeamShareOf(5), 0.95);
}

TEST(TeamChoiceTest, StaysWithOneThreadWhereATeamIsBarelyFaster) {
  Machine machine;
  machine.team = 1.2e-4;
  machine.TeamShareOf(20);
  machine.team = 0.98e-4;
  EXPECT_LT(machine.TeamShareOf(20), 0.1);
}

TEST(TeamChoiceTest, DoesNotCompareRegionsOfUnlikeKinds) {
  Machine machine;
  machine.team = 0.6e-4;
  machine.TeamShareOf(20);
  machine.kind = 50;  // longer ones
  machine.alone *= 10;
  machine.team *= 10;
  EXPECT_GT(machine.TeamShareOf(10), 0.95);
}

}  // namespace
}  // namespace cosformer
