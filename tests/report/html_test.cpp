#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "report/made_up_run.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::made_up_provenance;
using testing_support::made_up_run;
using testing_support::passed;

// Every tag that is opened is closed in order; empty if so, else what is wrong. Our page uses XML's stricter rules but for the doctype and <meta>.
std::string broken_tag(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<', 1); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return "unclosed tag at " + html.substr(at, 30);
    std::string tag = html.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "tag in a tag: " + tag;
    if (tag.starts_with("meta") || tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return "unexpected <" + tag + ">";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

TEST(Html, is_whole_and_loads_nothing) {
  const std::string html = html_report(made_up_run(), made_up_provenance());
  EXPECT_EQ(html.rfind("<!DOCTYPE html>\n<html lang=\"en\">", 0), 0u);
  EXPECT_EQ(broken_tag(html), "");
  for (const char* foreign : {"<script", "http://", "https://", "src=", "<link", "@import", "url("}) EXPECT_THAT(html, Not(HasSubstr(foreign)));
}

TEST(Html, shows_table_chart_failures_and_provenance) {
  const std::string html = html_report(made_up_run(), made_up_provenance());
  EXPECT_THAT(html, HasSubstr("<td class=\"passed\">passed</td><td class=\"number\">8.00x</td><td class=\"number\">7.76x to 8.16x</td><td class=\"number\">2.50x</td><td class=\"number\">1.000</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"failed\">crashed (SIGSEGV)</td>"));
  EXPECT_THAT(html, HasSubstr("<title>coalesced_matrix_transpose, cpu: 8.00x (7.76x to 8.16x)</title>"));
  EXPECT_THAT(html, HasSubstr("Geometric mean speedup <strong>4.00x</strong> over the 2 timed and passed; 3 not passed are not in it."));
  EXPECT_THAT(html, HasSubstr("<pre>one\ntwo\nthree\n"));
  EXPECT_THAT(html, HasSubstr("<th>commit</th><td>0123456789ab</td>"));
  EXPECT_THAT(html, HasSubstr("25 GB/s"));
}

TEST(Html, lets_no_text_become_markup) {
  std::vector<Record> records = made_up_run();
  records[3].stderr_tail = "</pre><script>alert(1)</script>";
  records[3].detail = "a < b && \"c\"";
  records[3].variant = "<b>\"&";
  const std::string html = html_report(records, made_up_provenance());
  EXPECT_EQ(broken_tag(html), "");
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("a &lt; b &amp;&amp; &quot;c&quot;"));
  EXPECT_THAT(html, HasSubstr("A Processor &lt;fast&gt;"));
}

TEST(Html, puts_twice_the_speedup_at_equal_steps) {
  const std::string html = html_report({passed("a", "cpu", 2, 0), passed("b", "cpu", 4, 0), passed("c", "cpu", 8, 0)}, {});
  std::vector<double> widths;
  for (std::size_t at = html.find("<rect "); at != std::string::npos; at = html.find("<rect ", at + 1)) widths.push_back(std::stod(html.substr(html.find("width=\"", at) + 7)));
  ASSERT_EQ(widths.size(), 3u);
  EXPECT_NEAR(widths[1], 2 * widths[0], 0.2);
  EXPECT_NEAR(widths[2], 3 * widths[0], 0.2);
}

TEST(Html, of_nothing_is_whole) {
  EXPECT_EQ(broken_tag(html_report({}, {})), "");
  EXPECT_THAT(html_report({}, {}), HasSubstr("No verdicts."));
}

}  // namespace
}  // namespace faibench
