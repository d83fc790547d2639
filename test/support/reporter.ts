import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** What `dev/run-tests.ts` wants to know about one layer. Vitest's own JSON report lacks the reasons of skips. */
export interface LayerReport {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: readonly { readonly name: string; readonly reason: string }[];
  /** Files that could not be loaded and errors outside of any test, in one line each. */
  readonly errors: readonly string[];
}

/** A Vitest reporter that writes a {@link LayerReport} to the file that HOLDFAST_TEST_REPORT names. */
export default class LayerReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly { readonly message: string }[]): void {
    const file = process.env['HOLDFAST_TEST_REPORT'];
    if (file === undefined) return;
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const skipped = tests.flatMap((test) => {
      const result = test.result();
      const name = `${test.module.relativeModuleId} > ${test.fullName}`;
      if (result.state === 'pending') return [{ name, reason: 'it was collected and never ran' }];
      if (result.state !== 'skipped') return [];
      return [{ name, reason: result.note ?? `no reason given (${test.options.mode})` }];
    });
    const report: LayerReport = {
      passed: tests.filter((test) => test.result().state === 'passed').length,
      failed: tests.filter((test) => test.result().state === 'failed').length,
      skipped,
      errors: [...modules.flatMap(errorsOf), ...unhandled.map((error) => error.message)],
    };
    writeFileSync(file, JSON.stringify(report));
  }
}

function errorsOf(module: TestModule): string[] {
  const suites = [...module.children.allSuites()].flatMap((suite) => suite.errors());
  return [...module.errors(), ...suites].map((error) => `${module.relativeModuleId}: ${error.message}`);
}
