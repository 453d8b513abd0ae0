#include "reproduce/document.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "contains.h"
#include "svg_reader.h"

namespace cosformer::reproduce {
namespace {

using testing::Contains;

constexpr const char* kSvg =
    "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"><defs><linearGradient "
    "id=\"scale\"></linearGradient></defs><rect fill=\"url(#scale)\"/></svg>";

Document SampleDocument() {
  Document document{.title = "A <title> & more", .blocks = {}};
  document.blocks.push_back(Heading{"Heading <b>"});
  document.blocks.push_back(Paragraph{"A \"paragraph\" & <script>alert(1)</script> \x01"});
  document.blocks.push_back(Bullets{{"first <", "second *bold* | pipe"}});
  document.blocks.push_back(Code{"cosformer a && b\nsecond line"});
  Table table{.caption = "Caption <", .header = {"system", "value"}, .columns = "lr"};
  table.rows = {{"a|b", "1 <2>"}, {"c", "✗ " + NoteMark(table, "out of <memory>")}};
  document.blocks.push_back(table);
  table.folded = true;
  document.blocks.push_back(table);
  document.blocks.push_back(Picture{"one", "Caption & one", kSvg});
  document.blocks.push_back(Picture{"two", "two", kSvg});
  return document;
}

std::string Body(const std::string& html) {
  EXPECT_EQ(html.rfind("<!DOCTYPE html>\n", 0), 0u);
  return html.substr(html.find('\n') + 1);
}

TEST(DocumentTest, HtmlIsWellFormedWhateverTheText) {
  const std::string html = ToHtml(SampleDocument());
  std::vector<testing::XmlElement> elements;
  ASSERT_NO_THROW(elements = testing::ElementsOf(Body(html))) << html;
  EXPECT_FALSE(Contains(html, "<script>"));
  EXPECT_TRUE(Contains(html, "&lt;script&gt;"));
  EXPECT_TRUE(Contains(html, "<h1>A &lt;title&gt; &amp; more</h1>"));
  EXPECT_EQ(html.find('\x01'), std::string::npos);
}

TEST(DocumentTest, TablesAreAlsoLatexWithoutTheFoldedOnes) {
  Document document = SampleDocument();
  Table signs{.caption = "50 % & more_or_less", .header = {"a", "b"}, .columns = "lr"};
  signs.rows = {{"2.50 ×", "1 ± 0.1"}, {"[1]", "✗ [1]"}, {"◔ [2]", "! [3]"}};
  document.blocks.push_back(signs);
  EXPECT_EQ(ToLatex(document), R"tex(% \usepackage{booktabs}

\begin{table}
  \centering
  \caption{Caption $<$}
  \begin{tabular}{lr}
  \toprule
  system & value \\
  \midrule
  a|b & 1 $<$2$>$ \\
  c & OOM [1] \\
  \bottomrule
  \end{tabular}
  \par {\footnotesize [1] out of $<$memory$>$}
\end{table}

\begin{table}
  \centering
  \caption{50 \% \& more\_or\_less}
  \begin{tabular}{lr}
  \toprule
  a & b \\
  \midrule
  2.50 $\times$ & 1 $\pm$ 0.1 \\
  {}[1] & OOM [1] \\
  timeout [2] & failed [3] \\
  \bottomrule
  \end{tabular}
\end{table}
)tex");
}

TEST(DocumentTest, HtmlTakesNothingFromElsewhere) {
  const std::string html = ToHtml(SampleDocument());
  for (const char* part : {"src=", "<link", "<script", "@import", "url(http"}) {
    EXPECT_FALSE(Contains(html, part)) << part;
  }
  EXPECT_FALSE(Contains(html, "<?xml"));
}

TEST(DocumentTest, PicturesDoNotShareIds) {
  const std::string html = ToHtml(SampleDocument());
  for (const char* part :
       {"id=\"one-scale\"", "url(#one-scale)", "id=\"two-scale\"", "url(#two-scale)"}) {
    EXPECT_TRUE(Contains(html, part));
  }
  EXPECT_FALSE(Contains(html, "id=\"scale\""));
}

TEST(DocumentTest, MarkdownEscapesWhatWouldBeMarkup) {
  const std::string markdown = ToMarkdown(SampleDocument());
  EXPECT_TRUE(Contains(markdown, "# A \\<title\\> & more\n"));
  EXPECT_TRUE(Contains(markdown, "- second \\*bold\\* \\| pipe\n"));
  EXPECT_TRUE(Contains(markdown, "| a\\|b | 1 \\<2\\> |\n"));
  EXPECT_TRUE(Contains(markdown, "|---|---:|\n"));
  EXPECT_TRUE(Contains(markdown, "    cosformer a && b\n    second line\n"));
  EXPECT_TRUE(Contains(markdown, "](figures/one.svg)"));
  EXPECT_TRUE(Contains(markdown, "\\[1\\] out of \\<memory\\>"));
}

TEST(DocumentTest, ASentenceHasOneMark) {
  Table table{.caption = "", .header = {}};
  EXPECT_EQ(NoteMark(table, "first"), "[1]");
  EXPECT_EQ(NoteMark(table, "second"), "[2]");
  EXPECT_EQ(NoteMark(table, "first"), "[1]");
  EXPECT_EQ(table.notes, (std::vector<std::string>{"first", "second"}));
}

}  // namespace
}  // namespace cosformer::reproduce
