// Writes the outcome where the test that started this looks for it.
const { writeFileSync } = require('node:fs')

exports.report = (outcome) => writeFileSync(process.env.EAAS_OUTCOME, JSON.stringify(outcome))
// There is no server that redirects beside it; and a simulated browser may refuse a page's Sec-Fetch-Site, as a real one does.
exports.without = ['a redirect is not followed', 'a broker stands between a page and the service']
