#include "reproduce/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "report/xml_text.h"

namespace cosformer::reproduce {
namespace {

using report::EscapeXml;

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// Nothing in the text of a report is meant as markup: names and sentences come from files.
std::string EscapeMarkdown(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|#").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", EscapeMarkdown(cell));
  return row + "\n";
}

std::string MarkdownOf(const Table& table) {
  std::string text = fmt::format("**{}**\n\n", EscapeMarkdown(table.caption));
  text += MarkdownRow(table.header) + "|";
  for (const char side : table.columns) text += side == 'r' ? "---:|" : "---|";
  text += "\n";
  for (const auto& row : table.rows) text += MarkdownRow(row);
  for (size_t i = 0; i < table.notes.size(); ++i) {
    text +=
        fmt::format("{}\\[{}\\] {}  \n", i == 0 ? "\n" : "", i + 1, EscapeMarkdown(table.notes[i]));
  }
  return text;
}

std::string HtmlRow(const Table& table, const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    // What was not run stays in the background.
    const char* kind = cells[i].starts_with("not run") ? " class=\"r faint\""
                       : table.columns[i] == 'r'       ? " class=\"r\""
                                                       : "";
    row += fmt::format("<{}{}>{}</{}>", tag, kind, EscapeXml(cells[i]), tag);
  }
  return row + "</tr>\n";
}

std::string HtmlOf(const Table& table) {
  std::string text =
      fmt::format("<table>\n<caption>{}</caption>\n<thead>", EscapeXml(table.caption));
  text += HtmlRow(table, table.header, "th") + "</thead>\n<tbody>\n";
  for (const auto& row : table.rows) text += HtmlRow(table, row, "td");
  text += "</tbody>\n</table>\n";
  if (!table.notes.empty()) {
    text += "<p class=\"notes\">";
    for (size_t i = 0; i < table.notes.size(); ++i) {
      text += fmt::format("{}[{}] {}", i == 0 ? "" : "<br/>\n", i + 1, EscapeXml(table.notes[i]));
    }
    text += "</p>\n";
  }
  if (!table.folded) return text;
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", EscapeXml(table.caption),
                     text);
}

// Ids count for the whole page: those of each picture get its name in front.
std::string WithOwnIds(std::string svg, const std::string& prefix) {
  for (const std::string_view before :
       {std::string_view(" id=\""), std::string_view("url(#"), std::string_view("href=\"#")}) {
    for (size_t at = 0; (at = svg.find(before, at)) != std::string::npos;) {
      at += before.size();
      svg.insert(at, prefix);
    }
  }
  return svg;
}

// A file may begin with <?xml ...?>, which has no place inside of another.
std::string InlineSvg(const Picture& picture) {
  const size_t begin = picture.svg.find("<svg");
  if (begin == std::string::npos) return "";
  return WithOwnIds(picture.svg.substr(begin), picture.name + "-");
}

std::string EscapeLatex(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
      {"\\", "\\textbackslash{}"},
      {"~", "\\textasciitilde{}"},
      {"^", "\\textasciicircum{}"},
      {"&", "\\&"},
      {"%", "\\%"},
      {"$", "\\$"},
      {"#", "\\#"},
      {"_", "\\_"},
      {"{", "\\{"},
      {"}", "\\}"},
      {"<", "$<$"},
      {">", "$>$"},
      {"×", "$\\times$"},
      {"±", "$\\pm$"},
      {"²", "$^2$"},
      {"–", "--"},
      {"·", "$\\cdot$"},
      {"✗", "OOM"},
      {"◔", "timeout"},
      {"\n", " "},
      {"…", "\\ldots{}"}};
  std::string escaped;
  while (!text.empty()) {
    const auto* const found =
        std::find_if(std::begin(kSigns), std::end(kSigns),
                     [&](const auto& sign) { return text.starts_with(sign.first); });
    if (found == std::end(kSigns)) {
      escaped += text.front();
      text.remove_prefix(1);
    } else {
      escaped += found->second;
      text.remove_prefix(found->first.size());
    }
  }
  return escaped;
}

std::string LatexCell(std::string_view cell) {
  if (cell.starts_with("! ")) return "failed" + EscapeLatex(cell.substr(1));
  // After the end of a row a bracket would be its option.
  return (cell.starts_with("[") ? "{}" : "") + EscapeLatex(cell);
}

std::string LatexRow(const std::vector<std::string>& cells) {
  std::string row;
  for (const std::string& cell : cells) row += (row.empty() ? "  " : " & ") + LatexCell(cell);
  return row + " \\\\\n";
}

std::string LatexOf(const Table& table) {
  std::string text = fmt::format(
      "\\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n  \\begin{{tabular}}{{{}}}\n  "
      "\\toprule\n",
      EscapeLatex(table.caption), table.columns);
  text += LatexRow(table.header) + "  \\midrule\n";
  for (const auto& row : table.rows) text += LatexRow(row);
  text += "  \\bottomrule\n  \\end{tabular}\n";
  for (size_t i = 0; i < table.notes.size(); ++i) {
    text += fmt::format("  \\par {{\\footnotesize [{}] {}}}\n", i + 1, EscapeLatex(table.notes[i]));
  }
  return text + "\\end{table}\n";
}

constexpr std::string_view kStyle = R"(
body{font:16px/1.5 system-ui,sans-serif;color:#111;background:#fff;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;line-height:1.2}h2{font-size:1.25rem;margin-top:2.2rem;border-bottom:1px solid #999}
table{border-collapse:collapse;margin:1.2rem 0 .3rem;font-size:.88rem}
caption{text-align:left;font-weight:600;padding-bottom:.3rem}
th,td{padding:.15rem .6rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}
thead th{border-bottom:2px solid #333}.r{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.faint{color:#767676}
.notes{font-size:.82rem;color:#333;margin-top:.2rem}.wide{overflow-x:auto}
figure{margin:1.5rem 0;overflow-x:auto}figcaption{font-size:.88rem;color:#333}svg{max-width:100%;height:auto}
pre{background:#f3f3f3;padding:.7rem;overflow-x:auto;font-size:.85rem}summary{cursor:pointer;font-weight:600}
@media print{body{max-width:none}details{display:none}}
)";

}  // namespace

std::string NoteMark(Table& table, const std::string& sentence) {
  const auto found = std::find(table.notes.begin(), table.notes.end(), sentence);
  const auto number = found - table.notes.begin() + 1;
  if (found == table.notes.end()) table.notes.push_back(sentence);
  return fmt::format("[{}]", number);
}

std::string PicturePath(const Picture& picture) { return "figures/" + picture.name + ".svg"; }

std::string ToMarkdown(const Document& document) {
  std::string text = fmt::format("# {}\n", EscapeMarkdown(document.title));
  for (const Block& block : document.blocks) {
    text += "\n";
    text += std::visit(
        Overloaded{
            [](const Heading& heading) {
              return fmt::format("## {}\n", EscapeMarkdown(heading.text));
            },
            [](const Paragraph& paragraph) { return EscapeMarkdown(paragraph.text) + "\n"; },
            [](const Bullets& bullets) {
              std::string list;
              for (const std::string& item : bullets.items) {
                list += fmt::format("- {}\n", EscapeMarkdown(item));
              }
              return list;
            },
            [](const Code& code) {
              std::string indented = "    ";
              for (const char c : code.text) indented += c == '\n' ? "\n    " : std::string(1, c);
              return indented + "\n";
            },
            [](const Table& table) { return MarkdownOf(table); },
            [](const Picture& picture) {
              const std::string caption = EscapeMarkdown(picture.caption);
              return fmt::format("![{}]({})\n\n{}\n", caption, PicturePath(picture), caption);
            },
        },
        block);
  }
  return text;
}

std::string ToLatex(const Document& document) {
  std::string text = "% \\usepackage{booktabs}\n";
  for (const Block& block : document.blocks) {
    const auto* const table = std::get_if<Table>(&block);
    if (table != nullptr && !table->folded) text += "\n" + LatexOf(*table);
  }
  return text;
}

std::string ToHtml(const Document& document) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      EscapeXml(document.title), kStyle);
  for (const Block& block : document.blocks) {
    text += std::visit(
        Overloaded{
            [](const Heading& heading) {
              return fmt::format("<h2>{}</h2>\n", EscapeXml(heading.text));
            },
            [](const Paragraph& paragraph) {
              return fmt::format("<p>{}</p>\n", EscapeXml(paragraph.text));
            },
            [](const Bullets& bullets) {
              std::string list = "<ul>\n";
              for (const std::string& item : bullets.items) {
                list += fmt::format("<li>{}</li>\n", EscapeXml(item));
              }
              return list + "</ul>\n";
            },
            [](const Code& code) { return fmt::format("<pre>{}</pre>\n", EscapeXml(code.text)); },
            [](const Table& table) {
              return fmt::format("<div class=\"wide\">{}</div>\n", HtmlOf(table));
            },
            [](const Picture& picture) {
              return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n",
                                 InlineSvg(picture), EscapeXml(picture.caption));
            },
        },
        block);
  }
  return text + "</body>\n</html>\n";
}

}  // namespace cosformer::reproduce
