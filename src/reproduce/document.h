// A report as a value: headings, text, tables and figures. Markdown, HTML and
// LaTeX are ways to write the same one down, so that they say the same.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace cosformer::reproduce {

struct Heading {
  std::string text;
};

struct Paragraph {
  std::string text;
};

struct Bullets {
  std::vector<std::string> items;
};

struct Code {
  std::string text;
};

struct Table {
  std::string caption;
  std::vector<std::string> header;
  std::string columns = {};  // a letter each: 'l' or 'r', the side at which its cells begin or end
  std::vector<std::vector<std::string>> rows = {};
  std::vector<std::string> notes = {};  // below it, counted from 1: what "[1]" in a cell stands for
  bool folded = false;                  // HTML shows the caption alone until it is clicked
};

struct Picture {
  std::string name;  // of its file, without the ending: letters, digits and "-"
  std::string caption;
  std::string svg;
};

using Block = std::variant<Heading, Paragraph, Bullets, Code, Table, Picture>;

struct Document {
  std::string title;
  std::vector<Block> blocks;
};

// The mark of a note in a table's cell, "[2]"; the same sentence has the same mark.
std::string NoteMark(Table& table, const std::string& sentence);

// Its tables alone, but those that are folded, each to be taken over into a paper; with \usepackage
// {booktabs}. Signs become words.
std::string ToLatex(const Document& document);

// Where Markdown looks for a picture, beside the report.
std::string PicturePath(const Picture& picture);

std::string ToMarkdown(const Document& document);

// One file without anything from elsewhere: pictures stand in it as SVG. It is also XML.
std::string ToHtml(const Document& document);

}  // namespace cosformer::reproduce
