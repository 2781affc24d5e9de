// As main.mjs, for programs of CommonJS: `suite.cjs` is the suite with `require` in place of `import`.
const { runSuite } = require('./suite.cjs')
const vectors = require('./envelope.vectors.json')

runSuite(vectors, process.argv[2]).then((outcome) => console.log(JSON.stringify(outcome)))
