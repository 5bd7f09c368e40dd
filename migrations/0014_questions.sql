-- A person can answer what an agent asks while its session waits, and can say something to a session that runs. So each question is
-- a row of its own, with its answer; before, a session's questions were kept together, for whoever looked later.

create table questions_before as select dispatch_id, task_id, asked from questions;
drop table questions;

create table questions (
  -- Made by the worker that asks, which asks again until it is answered.
  id uuid not null,
  dispatch_id uuid not null,
  task_id uuid not null,
  asked text not null,
  -- What can be answered; anything where it is empty.
  choices text[] not null default '{}',
  asked_at timestamptz not null default now(),
  -- Until when its session waits for a person; null where its agent was told to decide.
  waits_until timestamptz,
  answer text,
  answered_by text,
  answered_at timestamptz,
  constraint an_answer_is_whole check (((answer is null) = (answered_at is null)) and ((answer is null) = (answered_by is null))),
  primary key (id),
  foreign key (dispatch_id) references dispatches(id) on delete cascade
);

insert into questions (id, dispatch_id, task_id, asked, asked_at)
select gen_random_uuid(), q.dispatch_id, q.task_id, a.asked, d.claimed_at
from questions_before q
join dispatches d on d.id = q.dispatch_id
cross join unnest(q.asked) as a(asked);
drop table questions_before;

create index questions_of_task on questions (task_id);
create index questions_of_dispatch on questions (dispatch_id);
-- The inbox names the newest.
create index questions_open on questions (asked_at) where (answer is null);

-- What people say to sessions that run, answers to their questions among it.
create table said (
  id uuid not null,
  dispatch_id uuid not null,
  -- The question that it answers.
  question_id uuid,
  -- Name of the token.
  actor text not null,
  body text not null,
  at timestamptz not null default now(),
  -- When its worker had handed it to the session.
  heard_at timestamptz,
  primary key (id),
  foreign key (dispatch_id) references dispatches(id) on delete cascade,
  foreign key (question_id) references questions(id) on delete cascade
);

-- Every heartbeat asks for what is not heard, which is next to nothing.
create index said_unheard on said (dispatch_id) where (heard_at is null);
create index said_of_dispatch on said (dispatch_id);
create index said_of_question on said (question_id);

alter type failure add value 'unanswered' before 'interrupted';
