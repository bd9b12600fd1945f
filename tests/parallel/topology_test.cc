#include "parallel/topology.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace mla {
namespace {

namespace fs = std::filesystem;

class FakeRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / ("mla_topology_" + std::to_string(getpid()))).string();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  std::string root_;
};

TEST_F(FakeRoot, SmallestQuotaOnThePathWins) {
  Write("/proc/self/cgroup", "0::/a/b");
  Write("/sys/fs/cgroup/a/b/cpu.max", "400000 100000");
  Write("/sys/fs/cgroup/a/cpu.max", "150000 100000");
  Write("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_DOUBLE_EQ(CgroupQuota(root_), 1.5);
  EXPECT_EQ(DetectTopology(root_).default_threads, 1);
}

TEST_F(FakeRoot, ContainerWithoutACgroupPath) {
  Write("/proc/self/cgroup", "0::/");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_DOUBLE_EQ(CgroupQuota(root_), 0.5);
  EXPECT_EQ(DetectTopology(root_).default_threads, 1);  // never zero
}

TEST_F(FakeRoot, VersionOne) {
  Write("/proc/self/cgroup", "4:cpu,cpuacct:/box");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "300000");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(CgroupQuota(root_), 3.0);
}

TEST_F(FakeRoot, NoLimitAndNonsense) {
  EXPECT_EQ(CgroupQuota(root_), 0);
  Write("/proc/self/cgroup", "0::/");
  Write("/sys/fs/cgroup/cpu.max", "garbage");
  EXPECT_EQ(CgroupQuota(root_), 0);
  Write("/sys/fs/cgroup/cpu.max", "-5 100000");
  EXPECT_EQ(CgroupQuota(root_), 0);
}

TEST(Topology, ThisMachine) {
  const Topology t = DetectTopology();
  EXPECT_GE(t.affinity, 1);
  EXPECT_GE(t.physical, 1);
  EXPECT_LE(t.physical, t.affinity);
  EXPECT_GE(t.default_threads, 1);
  EXPECT_LE(t.default_threads, t.physical);
}

}  // namespace
}  // namespace mla
