-- The model that an agent really worked with, where it told one and that isn't the one which was chosen.
alter table dispatches add column model_used text;
