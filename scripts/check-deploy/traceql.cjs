// `node traceql.cjs FILE`: parses TraceQL, one query a line, with the grammar of Grafana's editor.
const fs = require('node:fs');
const { parser } = require('@grafana/lezer-traceql');

const queries = fs.readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean);
for (const query of queries) {
  parser.parse(query).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`at ${node.from} of ${query}`);
    },
  });
}
console.log(`${queries.length} queries`);
