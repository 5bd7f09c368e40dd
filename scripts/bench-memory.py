#!/usr/bin/env python3
"""Recall on public histories, through the product's own commands.

    scripts/bench-memory.py DIR [--keep FOLDER] [--times 100] [--embeddings URL MODEL]

DIR holds evaluate.py, baselines.py and a folder for each history: entries, queries, qrels (JSON lines, .gz or not). Starts a
coordinator of its own in a temporary folder, imports each history (`memory import`), asks its queries (`memory search
--batch`), and prints the scores, the difference to BM25 and to the rule of counted tags, and what it took. The baselines need
`pip install bm25s PyStemmer numpy`; without them their part is left out. RALPH_COORDINATOR names another program.
With --embeddings the coordinator asks that model, and is waited for until every entry has a vector and each history, of 100 entries
or more, was asked about its own.
"""
import argparse, gzip, json, os, pathlib, shutil, signal, statistics, subprocess, sys, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get('RALPH_COORDINATOR', str(ROOT / 'target/debug/ralph-coordinator'))
START_SECONDS = 60
VECTORS_SECONDS = 600


class Coordinator:
    """`up` without workers, in a folder that goes with it."""

    def __init__(self, embeddings):
        self.folder = tempfile.mkdtemp(prefix='ralph-recall-')
        os.chmod(self.folder, 0o755)  # Postgres runs as another user when this is root.
        self.env = {k: v for k, v in os.environ.items() if k not in ('DATABASE_URL', 'NATS_URL', 'RALPH_URL', 'RALPH_TOKEN')}
        self.env['RALPH_DATA'] = self.folder + '/data'
        if embeddings:
            url, model = map(json.dumps, embeddings)
            pathlib.Path(self.folder, '.ralph.toml').write_text(
                f'[memory.embeddings]\nurl = {url}\nmodel = {model}\ntimeout_ms = 10000\n')
            self.env['RALPH_CONFIG'] = self.folder + '/.ralph.toml'
        self.log = open(self.folder + '/log', 'wb')
        self.process = subprocess.Popen([PROGRAM, 'up', '--workers', '0'], cwd=self.folder, env=self.env, stdout=self.log,
                                        stderr=self.log)

    def __enter__(self):
        until = time.monotonic() + START_SECONDS
        while subprocess.run([PROGRAM, 'status'], cwd=self.folder, env=self.env, capture_output=True).returncode:
            if self.process.poll() is not None or time.monotonic() > until:
                text = pathlib.Path(self.folder, 'log').read_text(errors='replace')
                self.__exit__()
                raise SystemExit(f'the coordinator did not start:\n{text}')
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(START_SECONDS)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *args):
        """A command's standard output, and the seconds that it took."""
        begin = time.monotonic()
        done = subprocess.run([PROGRAM, *args], cwd=self.folder, env=self.env, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode(), time.monotonic() - begin

    def await_vectors(self, least, memories):
        """Until the model has answered for so many entries, and so many memories were asked about their own with its vectors; it may
        pause, as long as it goes on at last."""
        done, calibrated, until = 0, 0, time.monotonic() + VECTORS_SECONDS
        while done < least or calibrated < memories:
            seen = json.loads(self.run('memory', 'report', '--output', 'json')[0])['embeddings']
            calibrated = seen['calibrated']
            if seen['made'] + seen['refused'] > done:
                done, until = seen['made'] + seen['refused'], time.monotonic() + VECTORS_SECONDS
            elif time.monotonic() > until:
                raise SystemExit(f"the model made no vector for {VECTORS_SECONDS} s: {seen['trouble']}")
            time.sleep(1)

    def latencies(self, repo, queries):
        """Milliseconds of single questions over HTTP."""
        published = json.loads(pathlib.Path(self.env['RALPH_DATA'], 'api.json').read_text())
        taken = []
        for query in queries:
            body = {'repo': repo, 'kind': 'learning', 'limit': 5, 'queries': [query]}
            request = urllib.request.Request(published['url'] + '/api/v1/memory/search', json.dumps(body).encode(),
                                             {'Authorization': 'Bearer ' + published['token']})
            begin = time.monotonic()
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read()
            taken.append((time.monotonic() - begin) * 1000)
        return taken


def entries(folder, to):
    packed = folder / 'entries.jsonl.gz'
    source = gzip.open(packed, 'rb') if packed.exists() else open(folder / 'entries.jsonl', 'rb')
    with source, open(to, 'wb') as target:
        shutil.copyfileobj(source, target)


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument('dir', type=pathlib.Path)
    asked.add_argument('--keep', type=pathlib.Path, help='keep the answers here, one file a history')
    asked.add_argument('--times', type=int, default=100, help='single questions that are timed, of each history')
    asked.add_argument('--embeddings', nargs=2, metavar=('URL', 'MODEL'), help='a model in the OpenAI form')
    asked = asked.parse_args()
    root = asked.dir.resolve()
    histories = [folder for folder in sorted(root.iterdir()) if (folder / 'queries.jsonl').exists()] if root.is_dir() else []
    if not histories:
        raise SystemExit(f'{root} holds no history: a folder with entries.jsonl, queries.jsonl and qrels.jsonl')
    with tempfile.TemporaryDirectory() as out:
        out = (asked.keep or pathlib.Path(out)).resolve()
        out.mkdir(parents=True, exist_ok=True)
        pairs, imported = [], 0
        with Coordinator(asked.embeddings) as coordinator:
            print('| history | entries | import s | 1 question p50 ms | p99 ms | batch ms a question |\n|---|---|---|---|---|---|')
            for folder in histories:
                name, queries = folder.name, folder / 'queries.jsonl'
                path = pathlib.Path(coordinator.folder, name + '.entries')
                entries(folder, path)
                told, import_s = coordinator.run('memory', 'import', str(path), '--repo', name, '--output', 'json')
                imported += json.loads(told)['imported']
                if asked.embeddings:
                    coordinator.await_vectors(imported, len(pairs) // 2 + 1)
                answers, batch_s = coordinator.run('memory', 'search', '--batch', str(queries), '--repo', name, '--limit', '5',
                                                   '--output', 'json')
                (out / (name + '.jsonl')).write_text(answers)
                lines = [json.loads(line) for line in queries.read_text().splitlines()]
                taken = sorted(coordinator.latencies(name, lines[:asked.times])) or [float('nan')]
                print(f"| {name} | {json.loads(told)['imported']} | {import_s:.1f} | {statistics.median(taken):.1f} | "
                      f'{taken[int(0.99 * len(taken))]:.1f} | {batch_s / len(lines) * 1000:.1f} |', flush=True)
                pairs += [folder / 'qrels.jsonl', out / (name + '.jsonl')]
        evaluate = [sys.executable, root / 'evaluate.py', *pairs]
        made = subprocess.run([sys.executable, root / 'baselines.py', *histories, '--runs', out / 'baselines'],
                              capture_output=True, text=True)
        if made.returncode:
            print(f'\nno baselines: {made.stderr.strip().splitlines()[-1]}', file=sys.stderr)
            subprocess.run(evaluate, check=True)
            return
        print('\nRecall; the difference is to BM25\n', flush=True)
        against = [[out / 'baselines' / f'{folder.name}-{letter}.jsonl' for folder in histories] for letter in 'ba']
        subprocess.run([*evaluate, '--against', *against[0]], check=True)
        print('\nThe rule of counted tags\n', flush=True)
        tagged = [part for folder, run in zip(histories, against[1]) for part in (folder / 'qrels.jsonl', run)]
        subprocess.run([sys.executable, root / 'evaluate.py', *tagged], check=True)


if __name__ == '__main__':
    main()
