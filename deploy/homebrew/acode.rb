# The Homebrew formula of acode. `make package` fills in tag and revision and writes it
# to bin/dist.
class Acode < Formula
  desc "Run plans of tasks and steps so that no crash loses work"
  homepage "https://github.com/acode-dev/acode"
  url "https://github.com/acode-dev/acode.git",
      tag:      "@TAG@",
      revision: "@REVISION@"
  license "Apache-2.0"
  head "https://github.com/acode-dev/acode.git", branch: "main"

  depends_on "go" => :build

  def install
    system "make", "install", "PREFIX=#{prefix}"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/acode version")
    system bin/"acode", "init"
    system bin/"acode", "check", "plan.yml"
  end
end
