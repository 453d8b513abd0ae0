// `cosformer data clean`: what of the cache of prepared data goes, and how much that is.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cosformer/error.h"
#include "data/cache.h"
#include "formats/json.h"
#include "report/units.h"

namespace cosformer::cli {
namespace {

using data::CachedSet;
using json = nlohmann::ordered_json;

constexpr const char* kCleanDescription =
    R"(Removes prepared data from the cache, and lists what it removes and how much that is.

Without options it removes what nobody can use any more: sets whose source files have changed or are
gone, and sets that were never finished. Sets that a process is using stay, as does everything that
cosformer has not made. What is removed is made again when it is wanted.)";

constexpr const char* kCleanFooter = R"(
Examples
  cosformer data clean --dry-run
  cosformer data clean --older-than 30
  cosformer data clean --all)";

struct CleanArguments {
  std::string cache;
  bool all = false, dry_run = false;
  double older_than = -1;  // days; below 0: of any age
  std::string json;
};

double DaysSince(std::chrono::system_clock::time_point then) {
  const std::chrono::duration<double> since = std::chrono::system_clock::now() - then;
  return std::max(0.0, since.count() / 86400);
}

// Why the set goes; empty: it stays.
std::string WhyRemoved(const CachedSet& set, const CleanArguments& arguments) {
  if (const std::string why = WhyUseless(set); !why.empty()) return why;
  if (arguments.all) return "--all";
  const double days = DaysSince(set.used);
  if (arguments.older_than < 0 || days < arguments.older_than) return "";
  return fmt::format("unused for {:.0f} days", std::floor(days));
}

// Of sets that are removed, or kept.
struct Group {
  std::vector<std::vector<std::string>> rows;
  json list = json::array();
  int64_t bytes = 0;

  void Add(const CachedSet& set, const std::string& why) {
    rows.push_back({"  " + std::filesystem::path(set.path).filename().string(),
                    report::FormatBytes(static_cast<double>(set.bytes)),
                    fmt::format("{:.0f}", std::floor(DaysSince(set.used))), why});
    list.push_back({{"path", set.path},
                    {"task", set.task},
                    {"bytes", set.bytes},
                    {"unused_days", DaysSince(set.used)},
                    {"why", why}});
    bytes += set.bytes;
  }
  std::string Text(const std::string& what) const {
    return fmt::format("{}: {} set{}, {}\n", what, rows.size(), rows.size() == 1 ? "" : "s",
                       report::FormatBytes(static_cast<double>(bytes)));
  }
};

void RunClean(const CleanArguments& arguments) {
  CheckJsonOutput(arguments.json);
  const std::string cache = data::CacheDirectory(arguments.cache);
  Group removed, kept;
  for (const CachedSet& set : data::CachedSets(cache)) {
    const std::string why = WhyRemoved(set, arguments);
    if (why.empty()) {
      kept.Add(set, "");
    } else if (arguments.dry_run ? !IsUsed(set) : RemoveCached(set)) {
      removed.Add(set, why);
    } else {
      kept.Add(set, "a process is using it");
    }
  }
  std::string text = removed.Text(arguments.dry_run ? "would be removed" : "removed");
  std::vector<std::vector<std::string>> rows = {{"  set", "size", "days unused", "why"}};
  const auto add = [&](const Group& group) {
    if (group.rows.empty()) return;
    rows.resize(1);
    rows.insert(rows.end(), group.rows.begin(), group.rows.end());
    text += TableText(rows, "lrrl");
  };
  add(removed);
  text += kept.Text("kept in " + cache);
  add(kept);
  const json object = {{"cache", cache},          {"dry_run", arguments.dry_run},
                       {"removed", removed.list}, {"removed_bytes", removed.bytes},
                       {"kept", kept.list},       {"kept_bytes", kept.bytes}};
  PrintResults(text, JsonText(object, 2) + "\n", arguments.json);
}

}  // namespace

void AddDataClean(CLI::App& data) {
  CLI::App* clean = data.add_subcommand("clean", kCleanDescription);
  clean->footer(kCleanFooter);
  clean->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<CleanArguments>();
  clean->add_option("--cache", arguments->cache, "The cache; otherwise ~/.cache/cosformer");
  CLI::Option* all =
      clean->add_flag("--all", arguments->all, "Remove all sets that no process is using");
  clean
      ->add_option("--older-than", arguments->older_than,
                   "Also remove sets that were not used for so many days")
      ->default_str("")
      ->excludes(all);
  clean->add_flag("--dry-run", arguments->dry_run, "Say what would be removed, and remove nothing");
  AddJsonOption(*clean, arguments->json);
  clean->callback([arguments, clean] {
    if (clean->get_option("--older-than")->count() > 0 && !(arguments->older_than >= 0)) {
      throw Error(fmt::format("--older-than is {}; give a number of days, 0 or more",
                              arguments->older_than));
    }
    RunClean(*arguments);
  });
}

}  // namespace cosformer::cli
