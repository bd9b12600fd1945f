#include <memory>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "mla/bench.h"

namespace mla {
namespace {

struct PeaksArgs {
  PeaksOptions options;
  bool json = false;
};

JsonText ReadJson(const ReadPeak& read) {
  return JsonText()
      .Add("bytes", read.bytes)
      .Add("gbps_one", read.gbps_one)
      .Add("gbps_all", read.gbps_all);
}

JsonText UnitJson(const UnitPeak& unit) {
  return JsonText()
      .Add("unit", unit.unit)
      .Add("detected", unit.detected)
      .Add("usable", unit.usable)
      .Add("fits_isa", unit.fits_isa)
      .Add("why_not", unit.why_not)
      .Add("tops_one", unit.tops_one)
      .Add("tops_all", unit.tops_all);
}

JsonText ReportJson(const PeaksReport& report) {
  std::vector<JsonText> isas, units;
  for (const IsaPeak& peak : report.isas) {
    isas.push_back(JsonText()
                       .Add("isa", peak.isa)
                       .Add("tflops_one", peak.tflops_one)
                       .Add("tflops_all", peak.tflops_all));
  }
  for (const UnitPeak& unit : report.units) units.push_back(UnitJson(unit));
  return JsonText()
      .Add("cpu", report.cpu)
      .Add("isa", report.isa)
      .Add("threads", report.threads)
      .Add("l1d_bytes", report.l1d_bytes)
      .Add("l2_bytes", report.l2_bytes)
      .Add("l3_bytes", report.l3_bytes)
      .Add("probe_read", ReadJson(report.probe_read))
      .Add("memory_read", ReadJson(report.memory_read))
      .Add("isas", isas)
      .Add("units", units)
      .Add("latent_16bit", report.latent_16bit)
      .Add("latent_int8", report.latent_int8);
}

std::string Size(int64_t bytes) {
  if (bytes <= 0) return "unknown";
  const auto kib = static_cast<double>(bytes) / 1024;
  return kib < 1024 ? fmt::format("{:g} KiB", kib) : fmt::format("{:g} MiB", kib / 1024);
}

void PrintRead(Output& out, const char* name, const ReadPeak& read) {
  out.Line(fmt::format("{:<16}{:>10.1f}{:>13.1f}  GB/s, buffer of {}", name, read.gbps_one,
                       read.gbps_all, Size(read.bytes)));
}

std::string Remark(const UnitPeak& unit) {
  if (!unit.detected) return unit.why_not;
  if (!unit.usable) return "not used: " + unit.why_not;
  return unit.fits_isa ? "" : "wider than the chosen ISA";
}

void Print(Output& out, const PeaksReport& report) {
  out.Line(fmt::format("cpu      {}", report.cpu));
  out.Line(fmt::format("threads  {}", report.threads));
  out.Line(fmt::format("isa      {}", report.isa));
  out.Line(fmt::format("caches   L1d {}, L2 {}, L3 {}", Size(report.l1d_bytes),
                       Size(report.l2_bytes), Size(report.l3_bytes)));
  out.Line("");
  out.Line(fmt::format("{:<16}{:>10}{:>13}", "", "1 thread", "all threads"));
  PrintRead(out, "read, at start", report.probe_read);
  PrintRead(out, "read, memory", report.memory_read);
  for (const IsaPeak& peak : report.isas) {
    out.Line(fmt::format("{:<16}{:>10.3f}{:>13.3f}  TFLOP/s, fp32", peak.isa, peak.tflops_one,
                         peak.tflops_all));
  }
  for (const UnitPeak& unit : report.units) {
    if (unit.usable) {
      const std::string remark = Remark(unit);
      out.Line(fmt::format("{:<16}{:>10.3f}{:>13.3f}  Top/s{}{}", unit.unit, unit.tops_one,
                           unit.tops_all, remark.empty() ? "" : ", ", remark));
    } else {
      out.Line(fmt::format("{:<16}{:>10}{:>13}  {}", unit.unit, "-", "-", Remark(unit)));
    }
  }
  out.Line("");
  out.Line(fmt::format("fastest for a 16-bit latent  {}", report.latent_16bit));
  out.Line(fmt::format("fastest for an int8 latent   {}", report.latent_int8));
}

int RunPeaks(PeaksArgs& args) {
  WarnOfThreads(args.options.threads);
  args.options.log = StderrLog(false);
  Output out;
  const PeaksReport report = RunPeaksBench(args.options);
  if (args.json) {
    out.Line(ReportJson(report).Text());
  } else {
    Print(out, report);
  }
  out.Flush();
  return 0;
}

}  // namespace

void AddBenchPeaks(Command bench) {
  Command command = bench.AddSubcommand("peaks", "What this machine reaches: reads, arithmetic");
  auto args = std::make_shared<PeaksArgs>();
  AddThreadsOption(command, args->options.threads);
  AddIsaOption(command, args->options.isa);
  AddJsonFlag(command, "Print one JSON object", args->json);
  command.SetFooter(
      "Every instruction set and every unit for dot products, with one thread and with all. A "
      "unit\n"
      "counts only after a small known product was right in every thread; one that the processor\n"
      "names but that fails is left out, with a remark on standard error. The engine prefers the\n"
      "unit that does most for one thread, whatever the processor names.\n"
      "\n"
      "Examples:\n"
      "  mla bench peaks\n"
      "  mla bench peaks --threads 1 --isa avx2 --json\n");
  command.SetAction([args] { return RunPeaks(*args); });
}

}  // namespace mla
