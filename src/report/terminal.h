// What stderr can show, and the one line on it that renews itself: the ground under Progress and
// Meter. Widths are columns of the screen, not bytes.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace cosformer::report {

struct Screen {
  bool terminal = false;
  bool utf8 = false;
  bool colour = false;
  int columns = 0;  // 0 where that is unknown
};

// Of stderr, by its terminal and by TERM, NO_COLOR, LC_ALL, LC_CTYPE and LANG.
Screen StderrScreen();

// How many columns UTF-8 text takes: none for combining marks, two for ideographs and emoji, one
// for a byte that is not UTF-8.
int ColumnsOf(std::string_view text);

// The text on one line of at most `columns` columns: control characters become spaces, and what is
// too long ends in an ellipsis ("…", or "..." without UTF-8).
std::string FitColumns(std::string_view text, int columns, bool utf8);

class LiveLine {
 public:
  LiveLine() = default;
  // Elsewhere than on stderr, for tests.
  LiveLine(std::FILE* stream, const Screen& screen) : stream_(stream), fixed_(screen) {}
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  ~LiveLine() { Clear(); }

  // As it is now: a terminal can change its width.
  Screen screen() const { return fixed_ ? *fixed_ : StderrScreen(); }

  // Replaces the line, which must fit: a wrapped one would only be renewed in its last part.
  void Show(const std::string& line);
  // Removes it.
  void Clear();
  // A line that stays, where the live one was.
  void Print(const std::string& line);

 private:
  std::FILE* stream_ = stderr;
  std::optional<Screen> fixed_;
  bool shown_ = false;
};

}  // namespace cosformer::report
