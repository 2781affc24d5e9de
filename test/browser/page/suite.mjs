// The suite of all runtimes, for the test to run in a page.
import { runSuite } from '../../packed/runtimes/suite.mjs'

globalThis.runSuite = runSuite
