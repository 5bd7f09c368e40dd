// `node keda.cjs FILE…`: validates KEDA's objects among manifests in JSON, one document a file.
const fs = require('node:fs');

let objects = 0;
for (const file of process.argv.slice(2)) {
  for (const one of JSON.parse(fs.readFileSync(file, 'utf8'))) {
    if (!one.apiVersion.startsWith('keda.sh/')) continue;
    const { [one.kind]: Kind } = require(`@kubernetes-models/keda/${one.apiVersion}/${one.kind}`);
    new Kind(one).validate();
    objects += 1;
  }
}
if (objects === 0) throw new Error('there are none of KEDA\'s objects');
console.log(`${objects} objects`);
