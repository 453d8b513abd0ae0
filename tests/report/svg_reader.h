// SVG files read back: whether they are XML, and the elements in them.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/xml_text.h"

namespace cosformer::testing {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // what stands right before its end, without markup inside

  double Number(const std::string& attribute) const { return std::stod(attributes.at(attribute)); }
};

// Reads the part of XML that our writers use, and throws std::runtime_error at what is none of it:
// elements that close in another order than they opened, attributes without quotes or named twice,
// an "&" that begins no entity, characters that XML forbids, anything outside of the one root.
// Entities stay as they are written.
class XmlReader {
 public:
  explicit XmlReader(std::string_view xml) : xml_(xml) {
    for (const char32_t c : report::DecodeUtf8(xml)) {
      const bool control = c < 0x20 && c != '\n' && c != '\t';
      if (control || c == 0xFFFE || c == 0xFFFF) Fail("a character that XML forbids");
    }
  }

  // In the order in which they end.
  std::vector<XmlElement> Read() {
    do {
      if (!open_.empty()) open_.back().text = Text('<');
      ReadTag();
    } while (!open_.empty());
    if (xml_.substr(at_) != "\n") Fail("something after the end");
    return elements_;
  }

 private:
  [[noreturn]] void Fail(const std::string& why) const {
    throw std::runtime_error(why + " at byte " + std::to_string(at_) + ": " +
                             std::string(xml_.substr(at_, 60)));
  }

  char Peek() const {
    if (at_ >= xml_.size()) Fail("the end");
    return xml_[at_];
  }

  bool Take(std::string_view expected) {
    if (xml_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  std::string Name() {
    const size_t start = at_;
    while (std::isalpha(static_cast<unsigned char>(Peek())) || Peek() == '-' || Peek() == ':' ||
           (at_ > start && std::isdigit(static_cast<unsigned char>(Peek())))) {
      ++at_;
    }
    if (at_ == start) Fail("no name");
    return std::string(xml_.substr(start, at_ - start));
  }

  // Up to `end`, which is not taken.
  std::string Text(char end) {
    const size_t start = at_;
    while (Peek() != end) {
      if (Peek() == '<') Fail("markup in a value");
      if (Peek() != '&') {
        ++at_;
      } else if (!Take("&amp;") && !Take("&lt;") && !Take("&gt;") && !Take("&quot;") &&
                 !Take("&apos;")) {
        Fail("a bare ampersand");
      }
    }
    return std::string(xml_.substr(start, at_ - start));
  }

  void ReadTag() {
    if (Take("</")) {
      if (Name() != open_.back().name || !Take(">")) Fail("the end of another element");
      Close();
      return;
    }
    if (!Take("<")) Fail("no tag");
    XmlElement& element = open_.emplace_back();
    element.name = Name();
    while (Take(" ")) {
      const std::string name = Name();
      if (!Take("=\"")) Fail("an attribute without a value");
      if (!element.attributes.emplace(name, Text('"')).second) Fail("an attribute twice");
      Take("\"");
    }
    if (Take("/>")) {
      Close();
    } else if (!Take(">")) {
      Fail("a tag without an end");
    }
  }

  void Close() {
    elements_.push_back(open_.back());
    open_.pop_back();
  }

  std::string_view xml_;
  size_t at_ = 0;
  std::vector<XmlElement> open_;
  std::vector<XmlElement> elements_;
};

inline std::vector<XmlElement> ElementsOf(const std::string& xml) { return XmlReader(xml).Read(); }

inline std::vector<XmlElement> ElementsOf(const std::string& xml, const std::string& name) {
  std::vector<XmlElement> elements;
  for (const XmlElement& element : ElementsOf(xml)) {
    if (element.name == name) elements.push_back(element);
  }
  return elements;
}

inline std::vector<std::string> TextsOf(const std::string& svg) {
  std::vector<std::string> texts;
  for (const XmlElement& element : ElementsOf(svg, "text")) texts.push_back(element.text);
  return texts;
}

}  // namespace cosformer::testing
