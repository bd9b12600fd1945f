#include "parallel/topology.h"

#include <sched.h>

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

TEST_F(FakeRoot, CachesOfTheFirstCpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &set)) ++cpu;
  const CacheSizes none = DetectCaches(root_);
  EXPECT_EQ(none.l1d + none.l2 + none.l3, 0);
  const std::string dir = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  const char* const caches[][3] = {{"1", "Data", "48K"},
                                   {"1", "Instruction", "64K"},
                                   {"2", "Unified", "2048K"},
                                   {"3", "Unified", "260M"}};
  for (int i = 0; i < 4; ++i) {
    const std::string index = dir + std::to_string(i);
    Write(index + "/level", caches[i][0]);
    Write(index + "/type", caches[i][1]);
    Write(index + "/size", caches[i][2]);
  }
  const CacheSizes sizes = DetectCaches(root_);
  EXPECT_EQ(sizes.l1d, 48 << 10);
  EXPECT_EQ(sizes.l2, 2 << 20);
  EXPECT_EQ(sizes.l3, 260 << 20);
  Write(dir + "2/size", "-5K");
  EXPECT_EQ(DetectCaches(root_).l2, 0);
}

TEST_F(FakeRoot, NameOfTheProcessor) {
  EXPECT_EQ(CpuModel(root_), "unknown");
  Write("/proc/cpuinfo",
        "processor\t: 0\nBogoMIPS\t: 50\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c");
  EXPECT_EQ(CpuModel(root_), "implementer 0x41 part 0xd0c");
  Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nmodel name\t: Other");
  EXPECT_EQ(CpuModel(root_), "Some CPU @ 2 GHz");
}

}  // namespace
}  // namespace mla
