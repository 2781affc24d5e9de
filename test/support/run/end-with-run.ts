// Ends a vitest worker when its run has died (Ctrl-C, SIGKILL); otherwise it would continue its test.
const end = () => process.exit(1)
// A worker loads this for each of its files.
if (!process.listeners('disconnect').some(({ name }) => name === end.name)) process.on('disconnect', end)
